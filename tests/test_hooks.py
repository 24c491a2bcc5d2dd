"""Hooks, and the gradients of tensors on the way: complete, and each memory of its own."""

import numpy as np
import pytest
from tensors import leaf

import minigrad as mg
from minigrad.op import registry


def test_a_tensor_on_the_way_keeps_its_gradient_when_asked():
    """A tensor on the way keeps its gradient when asked, once however often asked, and adds up over walks."""
    x = leaf([1.0, -2.0])
    y = x * 3
    y.retain_grad()
    y.retain_grad()
    z = y * y
    g = mg.tensor([2.0, -3.0], dtype=mg.float64)
    z.backward(g, retain_graph=True)
    assert y.grad.tolist() == [12, 36]
    z.backward(g)
    assert y.grad.tolist() == [24, 72]
    x.retain_grad()  # a leaf keeps it anyway
    with pytest.raises(RuntimeError, match="require a gradient"):
        mg.ones(2).retain_grad()


def test_a_retained_gradient_is_memory_of_its_own():
    """An addition hands the same cotangent to both operands: what a tensor keeps of it must be a copy."""
    x, y = leaf([1.0, 2.0]) * 1, leaf([3.0, 4.0]) * 1
    x.retain_grad()
    y.retain_grad()
    g = np.array([2.0, -3.0])
    (x + y).backward(mg.from_numpy(g))
    x.grad.zero_()
    assert y.grad.tolist() == [2, -3]
    assert g.tolist() == [2, -3]


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_of_leaves_share_no_memory(create_graph):
    """x.grad, y.grad and the cotangent of x + y are equal numbers and three memories: one can be zeroed alone."""
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    g = mg.tensor([2.0, -3.0], dtype=mg.float64)
    (x + y).backward(g, create_graph=create_graph)
    with mg.no_grad():
        x.grad.zero_()
    assert y.grad.tolist() == [2, -3]
    assert g.tolist() == [2, -3]
    (x * 1 + y * 1).backward(g)  # adds up in place, in each leaf's own memory
    assert (x.grad.tolist(), y.grad.tolist()) == ([2, -3], [4, -6])


@pytest.mark.parametrize("where", ["leaf", "middle"])
def test_hooks_see_the_complete_gradient_and_may_replace_it(where):
    """A hook is called once, with the sum over all paths; what it returns goes on, in order of registration."""
    x = leaf([1.0, -2.0])
    y = x * 1
    t = x if where == "leaf" else y
    seen = []
    t.register_hook(lambda g: seen.append(g.tolist()))
    handle = t.register_hook(lambda g: g * 10)
    t.register_hook(lambda g: g + 1)
    z = y * 2 + y * 3 if where == "middle" else x * 2 + x * 3
    g = mg.tensor([2.0, -3.0], dtype=mg.float64)
    z.backward(g, retain_graph=True)
    assert seen == [[10, -15]]
    assert x.grad.tolist() == [101, -149]
    handle.remove()
    handle.remove()
    x.grad = None
    z.backward(g)
    assert x.grad.tolist() == [11, -14]


def test_a_hook_can_not_reach_into_the_engine():
    """A hook gets a copy: writing to it changes no gradient."""
    x = leaf([1.0, -2.0])
    y = x * 3
    y.register_hook(lambda g: [g.zero_(), None][1])
    (y + 0).backward(mg.tensor([2.0, -3.0], dtype=mg.float64))
    assert x.grad.tolist() == [6, -9]


def test_what_a_hook_returns_stays_its_own():
    """A hook may return a tensor that it keeps: the gradient is a copy, for a leaf and on the way."""
    kept = mg.tensor([7.0, 8.0], dtype=mg.float64)
    x = leaf([1.0, -2.0])
    y = x * 3
    for t in (x, y):
        t.register_hook(lambda g: kept)
    g = mg.tensor([2.0, -3.0], dtype=mg.float64)
    (dy,) = mg.autograd.grad(y * 2, y, g, retain_graph=True)
    (y * 2).backward(g)
    for found in (dy, x.grad):
        assert found.tolist() == [7, 8]
        assert not np.shares_memory(found.numpy(), kept.numpy())


def test_hooks_off_the_path_to_what_is_asked_are_not_called():
    """``grad(y, a)`` walks only what leads to a: hooks of b are not called, though an operation joins them."""
    a, b = leaf([1.0]), leaf([2.0])
    middle = b * 1
    for t in (b, middle):
        t.register_hook(lambda g: pytest.fail("a hook off the path was called"))
    for function in (
        lambda: a * middle,
        lambda: mg.cat([a, middle, b]),
        lambda: mg.einsum("i,i->i", a, b),
        lambda: registry["linear"](a, b.reshape(1, 1), middle),
    ):
        y = function()
        mg.autograd.grad(y, a, mg.ones_like(y) * -2)


def test_gradients_to_be_differentiated_again_share_no_memory():
    """Both operands of an addition receive the same cotangent, here one that the engine computed."""
    x, z = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    first, second = mg.autograd.grad(((x + z) * 2).sum(), [x, z], create_graph=True)
    assert not np.shares_memory(first.detach().numpy(), second.detach().numpy())
