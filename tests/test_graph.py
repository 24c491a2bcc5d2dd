"""The walk back through the graph: each path counts, each node is visited once, and what is asked for is returned.

A walk visits nodes in falling order of creation, so that a node comes after everything that used it; the tests
take shapes of graphs on which another order would be wrong.
"""

import itertools
import sys
import weakref

import numpy as np
import pytest
from tensors import leaf

import minigrad as mg
from minigrad.graph import backward_pass
from minigrad.op import op


def test_the_paths_of_a_diamond_add_up():
    """a = 1, b = a + a, c = b + b: four paths lead from c to a, each with derivative 1."""
    a = leaf(1.0)
    b = a + a
    (b + b).backward()
    assert a.grad.item() == 4


def test_a_node_waits_for_the_last_of_its_users():
    """y = x · e^x + e^(e^x): the node of e^x is visited after both of its users, however far apart they are."""
    x = leaf(0.5)
    e = x.exp()
    (x * e + e.exp()).backward(mg.tensor(-3.0, dtype=mg.float64))
    expected = -3 * (np.exp(0.5) * 1.5 + np.exp(np.exp(0.5)) * np.exp(0.5))
    np.testing.assert_allclose(x.grad.item(), expected, rtol=1e-14)


def test_order_of_creation_does_not_matter():
    """The sum of two branches has the same gradient whichever branch was made first, and whichever operand is."""
    results = []
    for first in (0, 1):
        x = leaf([0.3, -1.2])
        make = [lambda x: x.sin() * x, lambda x: x.exp()]
        branches = {k: make[k](x) for k in (first, 1 - first)}
        for a, b in ((0, 1), (1, 0)):
            y = branches[a] + branches[b]
            g = mg.tensor([2.0, -3.0], dtype=mg.float64)
            results.append(mg.autograd.grad(y, x, g, retain_graph=True)[0].tolist())
    for result in results:  # equal but for the order in which three terms are added up
        np.testing.assert_allclose(result, results[0], rtol=1e-14)


def test_a_million_paths_are_twenty_calls_of_the_rule():
    """a = a + a, twenty times: 2²⁰ paths, 20 nodes, 20 calls of the rule."""
    calls = []

    def count(g):
        calls.append(1)
        return g

    @op(x=count, y=lambda g: g)
    def counted_add(x, y):
        return x + y

    x = leaf(1.0)
    y = x
    for _ in range(20):
        y = counted_add(y, y)
    y.backward()
    assert x.grad.item() == 2**20
    assert len(calls) == 20


@pytest.mark.parametrize("walk", [True, False])
def test_a_chain_of_a_hundred_thousand_needs_no_recursion(walk):
    """No part of the engine recurses along the graph: not the walk, nor the freeing of a graph never walked."""
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1
    if walk:
        y.backward(mg.tensor(-2.0, dtype=mg.float64))
        assert x.grad.item() == -2
    last = weakref.ref(y)
    del y
    assert last() is None


def calls(action):
    """Return how many Python and C functions ``action`` calls: work without the noise of a clock."""
    n = 0

    def count(frame, event, argument):
        nonlocal n
        n += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return n


def deep(n):
    """A chain of n additions."""
    x = leaf(1.0)
    y = x
    for _ in range(n):
        y = y + x
    return x, y


def wide(n):
    """One value used n times, and all n results joined by one operation."""
    x = leaf(1.0)
    y = x * 2
    return x, mg.stack([y * k for k in range(n)]).sum()


@pytest.mark.parametrize(("make", "expected"), [(deep, 10_001), (wide, 2 * sum(range(10_000)))])
@pytest.mark.parametrize("targets", [False, True])
def test_ten_thousand_nodes_are_linear_work(make, expected, targets):
    """Depth and width: a walk over four times as many nodes makes four times as many calls, also to an input."""
    work = []
    for n in (2_500, 10_000):
        x, y = make(n)
        work.append(calls(lambda y=y, x=x: mg.autograd.grad(y, x) if targets else y.backward()))
    assert work[1] < 4.05 * work[0]
    assert targets or x.grad.item() == expected


def test_a_dead_branch_is_not_walked():
    """A branch that the output does not use is not walked: its rules do not run, and it can be used afterwards."""
    x = leaf([1.0, -2.0])
    y = x * 3
    unused = y.exp()
    unused.register_hook(lambda g: pytest.fail("the unused branch was walked"))
    y.backward(mg.tensor([2.0, -3.0], dtype=mg.float64))
    assert x.grad.tolist() == [6, -9]

    x = leaf([1.0, -2.0])
    y = x * 3
    other = y.exp()
    g = mg.tensor([1.0, -1.0], dtype=mg.float64)
    y.backward(g, retain_graph=True)
    x.grad = None
    other.backward(g)
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.exp([3.0, -6.0]) * [1, -1], rtol=1e-15)


def test_two_losses_add_up_in_the_subgraph_that_they_share():
    """Walked one after the other with ``retain_graph``, or together: the gradients add up either way."""
    together, apart = leaf([0.5, -1.0]), leaf([0.5, -1.0])
    s = apart.exp()
    (s * s).sum().backward(retain_graph=True)
    s.sin().sum().backward()
    s = together.exp()
    mg.autograd.backward([(s * s).sum(), s.sin().sum()])
    np.testing.assert_allclose(together.grad.numpy(), apart.grad.numpy(), rtol=1e-15)
    e = np.exp([0.5, -1.0])
    np.testing.assert_allclose(apart.grad.numpy(), 2 * e * e + np.cos(e) * e, rtol=1e-14)


def test_a_walk_to_an_input_looks_at_each_node_once():
    """Sixty doublings are 2⁶⁰ paths and sixty nodes."""
    x = leaf(1.0)
    y = x
    for _ in range(60):
        y = y + y
    assert mg.autograd.grad(y, x)[0].item() == 2.0**60


def test_an_output_that_leads_nowhere_is_left_alone():
    """Its part of the graph is not walked, and so not freed either."""
    x, z = leaf(0.5), leaf(2.0)
    y, other = x.exp(), z.exp()
    (found,) = mg.autograd.grad([y, other], [x], [mg.tensor(1.0).double(), mg.tensor(1.0).double()])
    assert found.item() == np.exp(0.5)
    other.backward()
    assert z.grad.item() == np.exp(2.0)


def test_the_walk_returns_what_was_asked_for():
    x, z = leaf(0.5), leaf(2.0)
    assert list(backward_pass([x, z], [np.array(1.0), np.array(3.0)], targets=[z])) == [z]


def test_numbers_and_arrays_without_dimensions_add_up():
    """NumPy makes scalars of most 0-d results, which nothing can be added into in place; where() makes arrays.

    Both meet at x, in every order, and a cast to the dtype of x is between.
    """
    for paths in itertools.permutations(["array", "scalar", "cast"]):
        x = mg.tensor(0.5, requires_grad=True)
        functions = {
            "array": lambda x: x.relu().double(),
            "scalar": lambda x: (x * 3.0).double(),
            "cast": lambda x: x * mg.tensor(2.0).double(),
        }
        total = mg.tensor(0.0).double()
        for path in (*paths, *paths):
            total = total + functions[path](x)
        total.backward()
        assert x.grad.dtype == np.float32
        assert x.grad.item() == 2 * (1 + 3 + 2)


# --- a second walk ----------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [lambda y, x: y.backward(), lambda y, x: mg.autograd.grad(y, x)])
def test_a_second_walk_through_a_freed_graph_is_refused(again):
    """The first walk freed what the nodes had saved; the second raises, and names ``retain_graph=True``."""
    x = leaf([1.0, 2.0])
    y = x.exp().sum()
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        again(y, x)


def test_second_grad_through_a_freed_graph_is_no_unused_input():
    """A freed path is not a missing one: also with ``allow_unused`` the answer is an error, never None."""
    x = leaf([1.0, 2.0])
    y = x.exp().sum()
    mg.autograd.grad(y, x)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        mg.autograd.grad(y, x, allow_unused=True)


def test_a_retained_graph_adds_to_leaves_only():
    """With ``retain_graph`` the leaf's gradient doubles, as it adds up; what flows on the way does not."""
    x = leaf([1.0, 2.0])
    y = x.exp()
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    z = (y * mg.tensor([2.0, -3.0], dtype=mg.float64)).sum()
    z.backward(retain_graph=True)
    first = x.grad.tolist()
    z.backward()
    assert seen == [[2, -3], [2, -3]]
    assert x.grad.tolist() == [2 * g for g in first]


# --- autograd.grad ----------------------------------------------------------------------------------


def test_grad_with_respect_to_what_is_on_the_way():
    """Interior tensors are inputs like any others; ``grad`` fills nobody's ``grad``."""
    x = leaf([1.0, -2.0])
    y = x * 3
    z = y * y
    g = mg.tensor([2.0, -3.0], dtype=mg.float64)
    dx, dy, dz = mg.autograd.grad(z, [x, y, z], g)
    assert (dx.tolist(), dy.tolist(), dz.tolist()) == ([36, 108], [12, 36], [2, -3])
    assert x.grad is y.grad is None


def test_an_input_that_is_the_output_has_its_cotangent_as_gradient():
    """An output that is an input has its cotangent as gradient, a copy, also beside other paths."""
    x = leaf([1.0, -2.0])
    g = mg.tensor([2.0, -3.0], dtype=mg.float64)
    (dx,) = mg.autograd.grad([x, x * 5], x, [g, g])
    assert dx.tolist() == [12, -18]
    (dx,) = mg.autograd.grad(x, x, g)
    assert dx.tolist() == [2, -3]
    assert not np.shares_memory(dx.numpy(), g.numpy())
    x.backward(g)
    assert x.grad.tolist() == [2, -3]
    assert not np.shares_memory(x.grad.numpy(), g.numpy())


def test_the_gradients_of_several_outputs_add_up():
    """The gradient of (y₁, y₂) with cotangents (g₁, g₂) is the sum of both, also of two halves of one split."""
    x = leaf([1.0, -2.0, 3.0, 4.0])
    a, b = x.split(2)
    g = [mg.tensor([2.0, -3.0], dtype=mg.float64), mg.tensor([-1.0, 5.0], dtype=mg.float64)]
    assert mg.autograd.grad([a * a, b], x, g)[0].tolist() == [4, 12, -1, 5]
    y = x.sum()
    assert mg.autograd.grad([y, y], x)[0].tolist() == [2, 2, 2, 2]


def test_an_unused_input_is_an_error_or_none():
    """An input that does not lead to the output: an error, or None with ``allow_unused``."""
    x, other = leaf([1.0]), leaf([2.0])
    y = x * 2
    with pytest.raises(RuntimeError, match="allow_unused=True"):
        mg.autograd.grad(y, [x, other], retain_graph=True)
    dx, missing = mg.autograd.grad(y, [x, other], allow_unused=True)
    assert dx.item() == 2
    assert missing is None


def test_backward_says_what_is_wrong_and_what_to_do():
    """Each says what is wrong and what to do."""
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"one element, not of shape \(2,\)"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match=r"gradient has shape \(3,\), its output \(2,\)"):
        (x * 2).backward(mg.ones(3))
    with pytest.raises(RuntimeError, match="requires_grad=True"):
        mg.ones(1).backward()
    with pytest.raises(RuntimeError, match="requires_grad=True"), mg.no_grad():
        (x * 2).sum().backward()
    with pytest.raises(RuntimeError, match="does not require a gradient"):
        mg.autograd.grad(x.sum(), mg.ones(2))


def test_results_on_a_subclass_are_plain_tensors():
    """What is computed from a subclass (a module's parameter, say) is a Tensor, and so is its gradient."""

    class Special(mg.Tensor):
        __slots__ = ()

    x = Special(np.array([1.0, -2.0]), requires_grad=True)
    for y in (x * 2, 2 * x, x[0], x.split(1)[0], x.detach(), x.reshape(2, 1), mg.cat([x, x]), np.exp(x)):
        assert type(y) is mg.Tensor
    (x * 2).backward(mg.tensor([1.0, -1.0], dtype=mg.float64))
    assert type(x.grad) is mg.Tensor
    assert x.grad.tolist() == [2, -2]
