"""Derivatives of derivatives: the rules run on Tensors, kernels as their composed forms."""

import numpy as np
import pytest
from tensors import leaf

import minigrad as mg
from minigrad.op import op, registry


def test_each_order_is_differentiated_through_the_one_before():
    """d³/dx³ of x⁵ is 60 x²; each order is differentiated through the graph of the one before."""
    x = leaf([1.5, -2.0])
    y = x**5
    for _ in range(3):
        (y,) = mg.autograd.grad(y.sum(), x, create_graph=True)
    np.testing.assert_allclose(y.detach().numpy(), 60 * np.array([1.5, -2.0]) ** 2, rtol=1e-14)


@pytest.mark.parametrize("name", ["linear", "attention", "layer_norm"])
def test_kernel_one_of_whose_inputs_is_made_from_another(name):
    """f(x, h(x)): with ``create_graph`` the composed form is differentiated in its inputs, not through them.

    The walk inside stops at the kernel's inputs; if it went on, the path through h would be counted twice.
    """
    rng = np.random.default_rng(0)
    start = rng.normal(size=(3, 3))
    calls = {
        "linear": lambda f, x, h: f(x, h, h[0]),
        "attention": lambda f, x, h: f(x, h, h * x),
        "layer_norm": lambda f, x, h: f(x, (3,), h[0], x[1]),
    }
    operation = registry[name]
    g = mg.tensor(rng.normal(size=(3, 3)))
    found = []
    for function in (operation, operation.composed):
        for create_graph in (False, True):
            x = leaf(start)
            y = calls[name](function, x, (x * 2).sin())
            (first,) = mg.autograd.grad(y, x, g, create_graph=create_graph)
            found.append(first.detach().numpy())
            if create_graph:
                (second,) = mg.autograd.grad((first * first).sum(), x)
                found.append(second.numpy())
    fast, recorded, second, composed, composed_recorded, composed_second = found
    for other in (recorded, composed, composed_recorded):
        np.testing.assert_allclose(other, fast, rtol=0, atol=1e-12 * np.abs(fast).max())
    np.testing.assert_allclose(second, composed_second, rtol=0, atol=1e-12 * np.abs(second).max())


def test_kernel_with_constant_inputs_under_create_graph():
    """The composed form also runs where only some of the inputs want a gradient, and the others are constants."""
    x, w = mg.tensor(np.random.default_rng(0).normal(size=(2, 3))), leaf([1.0, -2.0, 0.5])
    y = registry["layer_norm"](x, (3,), w)
    g = mg.tensor(np.arange(6.0).reshape(2, 3) - 2)
    (plain,) = mg.autograd.grad(y, w, g, retain_graph=True)
    (recorded,) = mg.autograd.grad(y, w, g, create_graph=True)
    np.testing.assert_allclose(recorded.detach().numpy(), plain.numpy(), rtol=1e-14)


def test_gradients_that_can_be_differentiated_add_up():
    """And so do their derivatives: (x³ + x²)′ = 3x² + 2x, whose derivative is 6x + 2."""
    x = leaf([1.0, -2.0])
    for power in (3, 2):
        (x**power).sum().backward(create_graph=True)
    assert x.grad.tolist() == [5, 8]
    assert mg.autograd.grad(x.grad.sum(), x)[0].tolist() == [8, -10]
    x.grad = None


def test_a_rule_that_leaves_the_graph():
    """Under ``create_graph`` a rule may return an array all the same: a constant, added up like any gradient."""

    def outside(x):
        return x.detach().numpy() if isinstance(x, mg.Tensor) else x

    @op(x=lambda g, x: outside(g) * 3.0 * outside(x) ** 2)
    def cube(x):
        return x**3

    x = leaf([2.0, -1.0])
    for function in (
        cube,
        lambda x: x * 5 + cube(x),
        lambda x: cube(x) + x * 5,
        lambda x: cube(x) + cube(x) + x * 5,
    ):
        plain = mg.autograd.grad(function(x).sum(), x)[0]
        recorded = mg.autograd.grad(function(x).sum(), x, create_graph=True)[0]
        assert recorded.tolist() == plain.tolist()
