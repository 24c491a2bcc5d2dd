"""What an operation is, declared by @op or @kernel: its arguments, its results, and what its rules are asked."""

import numpy as np
import pytest
from tensors import leaf

import minigrad as mg
from minigrad.observers import observing
from minigrad.op import kernel, op, registry
from minigrad.rules.rows import binary


def test_options_after_any_number_of_tensors():
    """A rule gets each by its name, however many tensors stand before them."""

    def gradients(g, tensors, scale, power):
        return [g * scale * power * x ** (power - 1) for x in tensors]

    @kernel(gradients, ["tensors"], promote="common")
    def powers(*tensors, scale=1.0, power=2):
        return scale * sum(x**power for x in tensors)

    for n in (1, 2, 3):
        inputs = [leaf([1.0 + k, -2.0]) for k in range(n)]
        for x, found in zip(
            inputs, mg.autograd.grad(powers(*inputs, scale=5.0, power=3).sum(), inputs), strict=True
        ):
            np.testing.assert_allclose(found.numpy(), 15 * x.detach().numpy() ** 2, rtol=1e-14)


def test_a_rule_whose_gradient_is_not_wanted_does_not_run():
    """``grad(y, x)`` asks for x alone, though another operand requires a gradient as well."""

    def fail(g):
        pytest.fail("the rule of y was run")

    @op(x=lambda g: g, y=fail)
    def first(x, y):
        return x + 0 * y

    x, y = leaf([1.0]), leaf([2.0])
    assert mg.autograd.grad(first(x, y), x)[0].tolist() == [1]


def test_a_joint_rule_is_asked_only_for_what_is_wanted():
    """A kernel that names ``wanted`` learns which gradients are needed, and a constant's is not."""
    asked = []

    def backward(g, x, y, wanted=()):
        asked.append(set(wanted))
        return g * y, g * x

    @kernel(backward, ["x", "y"])
    def product(x, y):
        return x * y

    x, y = leaf([2.0]), leaf([-3.0])
    product(x, y).backward(mg.tensor([1.0], dtype=mg.float64))
    product(x, y.detach()).backward(mg.tensor([1.0], dtype=mg.float64))
    assert asked == [{"x", "y"}, {"x"}]
    assert (x.grad.item(), y.grad.item()) == (-6, 2)


def test_an_argument_without_a_derivative_is_refused_not_dropped():
    x, mask = leaf([[1.0, 2.0], [3.0, -1.0]]), leaf([[0.5, 0.0], [0.0, 0.5]])
    with pytest.raises(RuntimeError, match=r"no derivative with respect to 'mask'.*detach"):
        registry["attention"](x, x, x, mask)


def test_a_kernel_that_answers_for_no_argument_records_nothing():
    @kernel(lambda g: (), [])
    def rounded(x):
        return np.round(x)

    assert not rounded(leaf([1.2])).requires_grad


def test_several_results_that_are_no_views_are_memory_of_their_own():
    """A write to one changes neither the other nor what both were computed from."""

    @kernel(lambda g: (2 * g[0] + 3 * g[1],), ["x"])
    def twofold(x):
        return 2 * x, 3 * x

    x, factor = leaf([1.0, -1.0]), leaf(5.0)
    square = x.square()  # which has saved x: a write to another memory is none of its business
    double, triple = twofold(x)
    double.mul_(factor)
    assert x.tolist() == [1, -1]
    total = (double + triple + square).sum()
    assert [g.tolist() for g in mg.autograd.grad(total, [x, factor])] == [[15, 11], 0]


def test_a_rule_of_several_results_gets_what_it_names():
    """Its arguments, and what the forward function saved besides, but not the results, which may be written.

    Without a rule nothing is recorded.
    """

    @kernel(lambda g, x, saved: (g[0] * saved + g[1] * 3 * np.exp(3 * x),), ["x"])
    def exponentials(x):
        return (np.exp(x), np.exp(3 * x)), np.exp(x)

    @op(x=lambda g, out: g[0] * out[0] + g[1] * out[1])
    def forgetful(x):
        return np.exp(x), np.exp(x)

    @op()
    def parts(x):
        return np.floor(x), np.sign(x)

    x = leaf([0.5, -0.25])
    once, thrice = exponentials(x)
    (found,) = mg.autograd.grad((2 * once - thrice).sum(), x)
    v = x.detach().numpy()
    np.testing.assert_allclose(found.numpy(), 2 * np.exp(v) - 3 * np.exp(3 * v), rtol=1e-14)
    with pytest.raises(RuntimeError, match="forgetful has several results, so that its rule can't name 'out'"):
        forgetful(x)
    assert [part.tolist() for part in parts(x)] == [[0, -1], [1, -1]]
    assert not any(part.requires_grad for part in parts(x))


@pytest.mark.parametrize("recorded", [True, False])
def test_an_observer_is_told_of_every_operation(recorded):
    """Of two tensors, of one, of a tensor and a number, with several results: the node, arguments and results."""
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    told = []
    with mg.set_grad_enabled(recorded), observing("test", lambda *what: told.append(what)):
        product, exponential, scaled, (first, second) = x * y, x.exp(), x * 3, x.unbind()
    results = [(product,), (exponential,), (scaled,), (first, second)]
    assert [operation.name for _, operation, _, _ in told] == ["mul", "exp", "mul", "unbind"]
    assert [arguments[0].tolist() for _, _, arguments, _ in told] == [[1, 2]] * 4
    assert told[0][2][1].tolist() == [3, 4]
    for (node, _, _, arrays), tensors in zip(told, results, strict=True):
        assert [a.tolist() for a in arrays] == [t.tolist() for t in tensors]
        assert (node is not None) == recorded == tensors[0].requires_grad


def test_a_row_has_a_rule_for_each_operand_or_for_none():
    """A rule that was forgotten is not a gradient that is silently none."""
    for rules in ({"x": lambda g, y: g * y}, {"y": lambda g, x: g * x}):
        with pytest.raises(ValueError, match="needs a rule for each of its operands"):
            binary(lambda x, y: x * y, "x stretched by y", **rules)
