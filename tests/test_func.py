"""Derivatives as functions of functions: against one another, against formulas, and nested."""

import inspect

import numpy as np
import pytest
from oracles import assert_close, differences

import minigrad as mg
from minigrad.func import grad, grad_and_value, hessian, hvp, jacrev, jvp, vjp


def double(*values, requires_grad=False):
    return mg.tensor(values[0] if len(values) == 1 else values, dtype=mg.float64, requires_grad=requires_grad)


def wavy(x, y):
    """A function of two vectors, smooth, with every second derivative."""
    return (x.tanh() @ y) * y.exp().sum() + (x * y).sin().sum()


def test_gradient_and_value():
    x, y = double(0.3, -0.7), double(1.1, 0.2)
    gradient, value = grad_and_value(wavy)(x, y)
    expected = differences(lambda a: float(wavy(*map(mg.from_numpy, a))), [x.numpy(), y.numpy()])
    assert_close(gradient.numpy(), expected[0], 1e-9)
    assert value.item() == wavy(x, y).item()
    both = grad(wavy, argnums=(0, 1))(x, y)
    assert_close(both[1].numpy(), expected[1], 1e-9)
    assert not gradient.requires_grad, "the caller asked for numbers, not for a graph"
    assert x.grad is None
    assert not x.requires_grad


def test_something_else_besides_the_value():
    gradient, aux = grad(lambda x: ((x * x).sum(), {"x": x.shape}), has_aux=True)(double(1.0, 2.0))
    assert gradient.tolist() == [2.0, 4.0]
    assert aux == {"x": (2,)}


def test_derivatives_of_any_order():
    f = lambda x: x**6
    for order, expected in enumerate([6.0, 30.0, 120.0, 360.0, 720.0, 720.0, 0.0], start=1):
        f = grad(f)
        assert f(double(1.0)).item() == expected, order


def test_nested_derivatives_do_not_mistake_each_other():
    """d/dx [x · d/dy (x + y)] = 1: perturbation confusion would make it 2 (Siskind and Pearlmutter 2005)."""
    one = double(1.0)
    assert grad(lambda x: x * grad(lambda y: x + y)(one))(one).item() == 1.0
    # d/dx [x · d/dy (x y²) at y = x] = d/dx 2 x³ = 6 x²
    assert grad(lambda x: x * grad(lambda y: x * y * y)(x))(double(2.0)).item() == 24.0
    # the inner function uses the outer variable only
    assert grad(lambda x: grad(lambda y: x * x * 3)(x) + x)(double(2.0)).item() == 1.0


def test_a_gradient_depends_on_what_the_function_closes_over():
    weight = double(2.0, requires_grad=True)
    slope = grad(lambda x: weight * weight * x)(double(5.0))
    slope.backward()
    assert weight.grad.item() == 4.0


def test_products_with_the_jacobian_agree(rng):
    """⟨J u, w⟩ = ⟨u, Jᵀ w⟩ for any u and w, and both equal the product with the Jacobian itself."""
    f = lambda x: mg.stack([x.tanh().sum(), (x * x).sum(), x[0] * x[2], x.exp().sum()])
    x, u, w = double(*rng.normal(size=3)), double(*rng.normal(size=3)), double(*rng.normal(size=4))
    value, pushed = jvp(f, (x,), (u,))
    same_value, pull = vjp(f, x)
    (pulled,) = pull(w)
    assert_close(value.numpy(), same_value.numpy(), 0)
    np.testing.assert_allclose(pushed.numpy() @ w.numpy(), u.numpy() @ pulled.numpy(), rtol=1e-12)
    jacobian = jacrev(f)(x).numpy()
    assert jacobian.shape == (4, 3)
    assert_close(pushed.numpy(), jacobian @ u.numpy(), 1e-12)
    assert_close(pulled.numpy(), jacobian.T @ w.numpy(), 1e-12)


def test_several_inputs_and_outputs():
    f = lambda x, y: (x * y, x + 2 * y)
    x, y = double(3.0), double(5.0)
    values, pull = vjp(f, x, y)
    assert [v.item() for v in values] == [15.0, 13.0]
    assert [g.item() for g in pull((double(1.0), double(10.0)))] == [15.0, 23.0]
    assert [g.item() for g in pull(double(1.0), double(10.0))] == [15.0, 23.0], "a pull-back can be used again"
    values, moved = jvp(f, (x, y), (double(1.0), double(-1.0)))
    assert [m.item() for m in moved] == [2.0, -1.0]


def test_the_hessian_is_symmetric_and_its_product_agrees(rng):
    f = lambda x: wavy(x, x.flip(0)) + x.softmax(0)[0] + x.gelu().sum()
    x, v = double(*rng.normal(size=4)), double(*rng.normal(size=4))
    h = hessian(f)(x).numpy()
    assert_close(h, h.T, 1e-12)
    value, product = hvp(f, x, v)
    assert value.item() == f(x).item()
    assert_close(product.numpy(), h @ v.numpy(), 1e-12)
    gradient_along = lambda a: float(grad(f)(mg.from_numpy(a[0])).numpy() @ v.numpy())
    assert_close(product.numpy(), differences(gradient_along, [x.numpy()])[0], 1e-8)


def test_newtons_method_needs_one_step_for_a_parabola():
    target = double(1.0, -2.0)
    f = lambda x: ((x - target) ** 2 * double(1.0, 10.0)).sum()
    x = double(7.0, 3.0)
    step = np.linalg.solve(hessian(f)(x).numpy(), grad(f)(x).numpy())
    np.testing.assert_allclose(x.numpy() - step, target.numpy(), rtol=1e-12)


def test_what_cannot_be_differentiated_is_refused():
    with pytest.raises(TypeError, match=r"floating.*int64"):
        grad(lambda x: x)(mg.tensor(1))
    with pytest.raises(TypeError, match="float"):
        grad(lambda x: x)(1.0)
    with pytest.raises(RuntimeError, match=r"one element.*\(2,\)"):
        grad(lambda x: x * 2)(double(1.0, 2.0))
    with pytest.raises(RuntimeError, match=r"tangent.*\(3,\).*\(2,\)"):
        jvp(lambda x: x, (double(1.0, 2.0),), (double(1.0, 2.0, 3.0),))
    for product in (jvp, hvp):
        with pytest.raises(RuntimeError, match="0 tangents were given for 1 primals"):
            product(lambda x: x.sum(), (double(1.0, 2.0),), ())


def test_works_where_nothing_is_being_recorded():
    with mg.no_grad():
        assert grad(lambda x: x**3)(double(2.0)).item() == 12.0
        assert not mg.is_grad_enabled()


@pytest.mark.parametrize("name", sorted(set(mg.func.__all__) - {"hvp"}))  # which is not in torch.func
def test_arguments_have_pytorchs_names(torch, name):
    ours, theirs = (list(inspect.signature(getattr(package.func, name)).parameters) for package in (mg, torch))
    assert ours == theirs[: len(ours)]
