"""The graph: what it keeps alive, what a walk through it does, and what it refuses.

A node points to the nodes of its inputs and nothing points back, so memory goes when the last reference goes; the
tests hold that with the garbage collector off.  A walk visits nodes in falling order of creation, so that a node
comes after everything that used it; the tests take shapes of graphs on which another order would be wrong.
"""

import gc
import math
import sys
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import assert_close, differences

import minigrad as mg
import minigrad.nn.functional  # registers the kernels
from minigrad.graph import Node, TensorBase
from minigrad.op import kernel, op, registry


def leaf(values):
    """Return a float64 leaf whose gradient is wanted."""
    return mg.tensor(values, dtype=mg.float64, requires_grad=True)


@pytest.fixture
def no_collector():
    """Switch the garbage collector off: what is freed is freed by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# --- paths ----------------------------------------------------------------------------------------


def test_diamond():
    """a = 1, b = a + a, c = b + b: four paths lead from c to a, each with derivative 1."""
    a = leaf(1.0)
    b = a + a
    (b + b).backward()
    assert a.grad.item() == 4


def test_uneven_diamond():
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


def test_twenty_doublings():
    """a = a + a, twenty times: 2²⁰ paths, 20 nodes, 20 calls of the rule."""
    calls = []

    def count(g):
        calls.append(1)
        return g

    @op(x=count, y=lambda g: g)
    def counted_add(x, y):
        return x + y

    del registry["counted_add"]
    x = leaf(1.0)
    y = x
    for _ in range(20):
        y = counted_add(y, y)
    y.backward()
    assert x.grad.item() == 2**20
    assert len(calls) == 20


@pytest.mark.parametrize("walk", [True, False])
def test_chain_of_a_hundred_thousand(walk):
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


def test_dead_branch():
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


def test_two_losses_share_a_subgraph():
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


# --- a second walk --------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [lambda y, x: y.backward(), lambda y, x: mg.autograd.grad(y, x)])
def test_second_walk_through_a_freed_graph(again):
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


def test_retained_graph_adds_to_leaves_only():
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


# --- memory ---------------------------------------------------------------------------------------


def test_flat_memory_over_a_thousand_steps(no_collector):
    """A training step leaves nothing behind: after 1,000 there are as many tensors and nodes as after 2."""
    rng = np.random.default_rng(0)
    w1, w2 = leaf(rng.normal(size=(4, 3))), leaf(rng.normal(size=(2, 4)))
    x, target = mg.tensor(rng.normal(size=(5, 3))), mg.tensor(rng.integers(0, 2, 5))

    def step():
        hidden = registry["linear"](x, w1, None).relu()
        loss = registry["cross_entropy"](registry["linear"](hidden, w2, None), target)
        loss.backward()
        with mg.no_grad():
            for w in (w1, w2):
                w -= 0.1 * w.grad
                w.grad = None
        return loss.item()

    def alive():
        return sum(issubclass(type(thing), TensorBase | Node) for thing in gc.get_objects())

    losses = [step(), step()]
    before = alive()
    losses += [step() for _ in range(998)]
    assert alive() == before
    assert losses[-1] < losses[0]


def test_no_cycles(no_collector):
    """Whatever a graph holds is freed by reference counts: the collector finds nothing, walked or not."""

    def build():
        x = leaf([[0.5, -1.0], [2.0, 0.3]])
        y = (x @ x.T).softmax(-1)
        a, b = y.split(1)
        return x, mg.cat([a, b.exp()])[[0, 0, 1]].var()

    gc.collect()
    for use in (
        lambda x, y: None,
        lambda x, y: y.backward(),
        lambda x, y: mg.autograd.grad(y, x, create_graph=True),
        lambda x, y: y.retain_grad(),
        lambda x, y: y.register_hook(lambda g: 2 * g),
    ):
        use(*build())
        assert gc.collect() == 0


class Watched(np.ndarray):
    """An array that can be referred to weakly, so that a test sees it go."""


def test_saved_values_go_as_the_walk_proceeds():
    """A node lets go of what it saved when the walk has passed it, though the output is still there."""
    x = leaf([1.0, 2.0])
    factor = Watched(2)  # two elements, of whatever value
    factor[:] = 2.0, -3.0
    watch = weakref.ref(factor)
    y = registry["mul"](x, factor).sum()
    del factor
    assert watch() is not None
    y.backward()
    assert watch() is None
    assert y.grad_fn.saved is None


SAVED = {
    # operation: what its node keeps of operands x and y and the output
    "add": (lambda x, y: x + y, set()),
    "sub": (lambda x, y: x - y, set()),
    "neg": (lambda x, y: -x, set()),
    "mul": (lambda x, y: x * y, {"x", "y"}),
    "mul by a constant": (lambda x, y: x * y.detach(), {"y"}),
    "exp": (lambda x, y: x.exp(), {"out"}),
    "tanh": (lambda x, y: x.tanh(), {"out"}),
    "relu": (lambda x, y: x.relu(), {"out"}),
    "sin": (lambda x, y: x.sin(), {"x"}),
    "matmul": (lambda x, y: x @ y, {"x", "y"}),
    "sum": (lambda x, y: x.sum(0), set()),
    "reshape": (lambda x, y: x.reshape(-1), set()),
    "cat": (lambda x, y: mg.cat([x, y]), set()),
    "softmax": (lambda x, y: x.softmax(-1), {"out"}),
    "index": (lambda x, y: x[[0, 0]], set()),
}


@pytest.mark.parametrize("name", SAVED)
def test_a_node_saves_what_its_rules_name(name):
    """A node keeps no more than its rules name: an addition no array at all, an exponential only its result."""
    function, expected = SAVED[name]
    x, y = leaf([[0.5, -1.0], [2.0, 0.3]]), leaf([[1.5, 0.4], [-0.7, 1.0]])
    out = function(x, y)
    kept = [value for value in out.grad_fn.saved if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
    owners = {"x": x, "y": y, "out": out}
    found = {who for who, t in owners.items() if any(np.shares_memory(t._data, value) for value in kept)}
    assert found == expected


def test_an_unused_operand_of_an_addition_goes():
    """An addition refers to the nodes of its operands, not to their values."""
    x = leaf(np.ones(1000))
    big = x * 2
    watch = weakref.ref(big)
    data = weakref.ref(big._data)
    y = big + 1
    del big
    assert watch() is None
    assert data() is None
    y.backward(mg.ones(1000, dtype=mg.float64))
    assert x.grad.tolist() == [2] * 1000


# --- writes in place ------------------------------------------------------------------------------

WRITES = {
    "the tensor": lambda t: t.mul_(2),
    "an element": lambda t: t.__setitem__(0, 9.0),
    "a view": lambda t: t[1:].zero_(),
    "a view of a view": lambda t: t.reshape(2, 1).T.fill_(3),
    "detach()": lambda t: t.detach().add_(1),
    "data": lambda t: t.data.zero_(),
    "copy_": lambda t: t.copy_(mg.zeros(2)),
    "clamp_": lambda t: t.clamp_(0, 0.1),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("saved", ["input", "output"])
def test_a_write_to_a_saved_value_is_noticed(name, saved):
    """The gradient of e^x or sin x at values that are gone can't be had: an error with op, shape and versions."""
    x = leaf([0.5, -1.0])
    middle = x * 2
    y = middle.sin() if saved == "input" else middle.exp()
    with mg.no_grad():
        WRITES[name](middle if saved == "input" else y)
    operation = "sin" if saved == "input" else "exp"
    with pytest.raises(RuntimeError, match=rf"gradient of {operation}.*\(2,\).*version 1, version 0 is needed"):
        y.backward(mg.tensor([1.0, -1.0], dtype=mg.float64))


def test_a_write_to_what_is_not_saved_is_harmless():
    """An addition saves nothing, so its operands may be overwritten."""
    x = leaf([0.5, -1.0])
    middle = x * 2
    y = middle + 1
    with mg.no_grad():
        middle.zero_()
    y.backward(mg.tensor([2.0, -3.0], dtype=mg.float64))
    assert x.grad.tolist() == [4, -6]


def test_a_write_to_a_base_is_noticed_in_a_view():
    """A view and its base are one memory: a write to either counts for both."""
    x = leaf([0.5, -1.0, 2.0])
    base = x * 1
    y = base[1:].exp() * base[:2].sin()
    with mg.no_grad():
        base[2] = 7.0
    with pytest.raises(RuntimeError, match="modified in place"):
        y.backward(mg.ones(2, dtype=mg.float64))


@pytest.mark.parametrize(
    "select",
    [
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x.gather(0, i.reshape(1, 2)),
        lambda x, i: x.index_select(0, i),
        lambda x, i: mg.zeros(3, 2, dtype=mg.float64).scatter_add(0, i.reshape(1, 2), x[:1]),
        lambda x, i: registry["embedding_lookup"](x, i),
    ],
)
def test_a_write_to_an_index_never_changes_the_gradient(select):
    """The rule places the gradient where the index pointed in the forward pass: a later write must not move it."""
    g = None
    found = []
    for write in (False, True):
        x, i = leaf([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), mg.tensor([0, 1])
        y = select(x, i)
        g = mg.tensor(np.random.default_rng(0).normal(size=y.shape)) if g is None else g
        if write:
            i[0] = 1
        try:
            found.append(mg.autograd.grad(y, x, g)[0].tolist())
        except RuntimeError as error:
            assert write
            assert "modified in place" in str(error)  # noqa: PT017 - either answer is right
            return
    assert found[0] == found[1]


def test_recorded_updates_in_place():
    """y = x, y += x², y *= 3, y −= 1, y /= 2: the tensor takes over each result's place in the graph."""
    x = leaf([0.5, -1.0])
    y = x * 1
    y += x * x
    y *= 3
    y -= 1
    y /= 2
    y.add_(x, alpha=4).mul_(2)
    np.testing.assert_allclose(y.detach().numpy(), 3 * np.array([0.75, 0.0]) - 1 + 8 * np.array([0.5, -1.0]))
    y.backward(mg.tensor([2.0, -3.0], dtype=mg.float64))
    # dy/dx = 2 · (3 (1 + 2x)/2 + 4)
    np.testing.assert_allclose(x.grad.numpy(), (3 * (1 + 2 * np.array([0.5, -1.0])) + 8) * [2, -3], rtol=1e-15)


def test_elements_written_in_a_loop():
    """out[i, j] = f(x, i, j), element by element, has the gradient of the stacked expression."""
    x = leaf([0.5, -1.0, 2.0])
    out = mg.zeros(2, 3, dtype=mg.float64)
    for i in range(2):
        for j in range(3):
            out[i, j] = x[j] ** (i + 2)
    g = np.array([[2.0, -3.0, 1.0], [-1.0, 4.0, 0.5]])
    out.backward(mg.tensor(g))
    v = np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(x.grad.numpy(), g[0] * 2 * v + g[1] * 3 * v**2, rtol=1e-15)


def test_overwritten_elements_have_no_gradient():
    """What was written over has no influence any more, and the value written has."""
    x, v = leaf([1.0, 2.0, 3.0]), leaf([[5.0], [6.0]])
    y = x * 2
    y[1:] = v[0]
    y[0] = v[1, 0] * v[0, 0]
    y.backward(mg.tensor([2.0, -3.0, 7.0], dtype=mg.float64))
    # y = (v₁ v₀, v₀, v₀)
    assert x.grad.tolist() == [0, 0, 0]
    assert v.grad.tolist() == [[2 * 6 - 3 + 7], [2 * 5]]


def test_value_with_a_leading_one_written_into_a_row():
    """NumPy writes a (1, 3) value into a (3,) row; its gradient has the value's shape."""
    x, v = mg.zeros(2, 3, dtype=mg.float64), leaf([[1.0, 2.0, 3.0]])
    x[0] = v
    x.backward(mg.tensor([[2.0, -3.0, 1.0], [9.0, 9.0, 9.0]], dtype=mg.float64))
    assert v.grad.tolist() == [[2, -3, 1]]


def test_a_leaf_is_not_written_while_recording():
    """A leaf that wants a gradient has none after being overwritten: an error, and the way out in it."""
    x = leaf([1.0, 2.0])
    for write in (lambda: x.add_(1), lambda: x.__setitem__(0, 5.0), lambda: x.zero_(), lambda: x.__imul__(2)):
        with pytest.raises(RuntimeError, match=r"leaf tensor of shape \(2,\).*no_grad"):
            write()
    assert x.tolist() == [1, 2]
    with mg.no_grad():
        x += 1
    assert x.tolist() == [2, 3]
    assert x.is_leaf
    assert x.requires_grad


def test_a_write_through_a_view_counts_for_its_base_and_the_reverse():
    """y = 2x; y[1:] *= 3 through a view; y[0] = x₂ in the base: each sees the other's write, and its gradient."""
    x = leaf([1.0, 2.0, 3.0])
    y = x * 2
    view, whole = y[1:], y.reshape(3, 1)
    view *= 3
    y[0] = x[2]
    whole[2] = whole[2].clone() * x[0]
    assert y.tolist() == [3, 12, 18]
    assert view.tolist() == [12, 18]
    g = mg.tensor([2.0, -3.0, 5.0], dtype=mg.float64)
    # y = (x₂, 6x₁, 6x₂x₀)
    y.backward(g, retain_graph=True)
    assert x.grad.tolist() == [5 * 18, -18, 2 + 5 * 6]
    assert mg.autograd.grad(view, x, g[1:])[0].tolist() == [5 * 18, -18, 5 * 6]


def test_a_view_of_a_leaf_is_not_written_while_recording():
    """A leaf stays the leaf that it is, also where the write comes through a view of it."""
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"view of a leaf tensor of shape \(1,\).*no_grad"):
        x[1:].mul_(2)
    assert x.tolist() == [1, 2]


VIEWS = [
    lambda t: t[1:],
    lambda t: t[::-1],
    lambda t: t[..., 0],
    lambda t: t.T,
    lambda t: t.unsqueeze(0),
    lambda t: t[:],
    lambda t: t.split(1, 0)[0],
    lambda t: t.unbind(-1)[-1],
    lambda t: t.transpose(0, -1),
]
UPDATES = [
    lambda t, s: t.mul_(s),
    lambda t, s: t.add_(s, alpha=2),
    lambda t, s: t.div_(1.5),
    lambda t, s: t.mul_(t),
    lambda t, s: t.__setitem__(0, s),
    lambda t, s: t.__setitem__(Ellipsis, s * 0.5),
    lambda t, s: t.__setitem__([0, -1] if len(t) > 1 else [0], s),
    lambda t, s: t.copy_(s + 1),
    lambda t, s: t.fill_(0.5),
    lambda t, s: t.__isub__(0.25),
]


@given(
    views=st.lists(st.tuples(st.integers(0, 20), st.sampled_from(VIEWS)), max_size=4),
    steps=st.lists(st.tuples(st.sampled_from(UPDATES), st.integers(0, 20), st.booleans()), min_size=1, max_size=5),
    late=st.booleans(),
)
def test_programs_that_write_through_views(views, steps, late):
    """A drawn program of views, writes through them and reads in between has the gradient of its differences.

    It is run on a copy of x, so that as a function of x it writes nothing; its result is the weighted sum of all
    that it read on the way, and of all tensors at the end: a polynomial in x.
    """
    start = np.random.default_rng(1).uniform(0.5, 1.5, (2, 2))

    def weighted_sum(t, k):
        return (t * np.cos(np.arange(math.prod(t.shape)) + k).reshape(t.shape)).sum()

    def program(x):
        tensors = [x.clone() if not late else mg.ones(2, 2, dtype=mg.float64)]
        for which, view in views:
            base = tensors[which % len(tensors)]
            if base.ndim and len(base):
                tensors.append(view(base))
        result = 0
        for k, (update, which, read) in enumerate(steps):
            t = tensors[which % len(tensors)]
            if t.ndim and len(t):
                update(t, x[k % 2, 0])
            if read:
                result = result + weighted_sum(tensors[(which + k) % len(tensors)], k)
        return result + sum(weighted_sum(t, 9 + k) for k, t in enumerate(tensors))

    x = leaf(start)
    out = program(x)
    if not out.requires_grad:  # nothing that was read depends on x
        return
    (found,) = mg.autograd.grad(out, x, mg.tensor(-2.0, dtype=mg.float64))
    (expected,) = differences(lambda arrays: -2 * program(mg.tensor(arrays[0])).item(), [start])
    assert_close(found.numpy(), expected, rtol=1e-7, floor=1e-9)


def test_a_write_that_does_not_fit():
    """An in-place result must have the tensor's own shape."""
    x = mg.ones(3)
    with pytest.raises(RuntimeError, match=r"\(2, 3\), which doesn't fit into \(3,\)"):
        x += mg.ones(2, 3)


# --- grad mode ------------------------------------------------------------------------------------


def test_grad_mode_nests_and_is_restored():
    """Each block restores what it found, in whatever order they nest, and a context object may be re-entered."""
    context = mg.no_grad()
    with context:
        assert not mg.is_grad_enabled()
        with mg.enable_grad():
            assert mg.is_grad_enabled()
            with context:
                assert not mg.is_grad_enabled()
                with mg.set_grad_enabled(True):
                    assert mg.is_grad_enabled()
                assert not mg.is_grad_enabled()
            assert mg.is_grad_enabled()
        assert not mg.is_grad_enabled()
    assert mg.is_grad_enabled()


def test_set_grad_enabled_as_a_function():
    """Called alone it holds from there on, as in PyTorch."""
    mg.set_grad_enabled(False)
    assert not mg.is_grad_enabled()
    mg.set_grad_enabled(True)
    assert mg.is_grad_enabled()


@pytest.mark.parametrize("mode", [mg.no_grad, mg.inference_mode])
def test_grad_mode_as_a_decorator(mode):
    """A decorated function records nothing, also where it calls itself or raises; its name stays."""
    x = leaf(2.0)

    @mode()
    def double(depth):
        """Twice x."""
        if depth:
            return double(depth - 1)
        if depth is None:
            raise KeyError("on purpose")
        assert not mg.is_grad_enabled()
        return x * 2

    y = double(3)
    assert mg.is_grad_enabled()
    assert not y.requires_grad
    assert y.is_leaf
    assert (double.__name__, double.__doc__) == ("double", "Twice x.")
    assert (x * 2).requires_grad


@pytest.mark.parametrize("mode", [mg.no_grad, mg.enable_grad, lambda: mg.set_grad_enabled(False)])
def test_an_exception_restores_grad_mode(mode):
    """However a block ends."""
    for outer in (True, False):
        with mg.set_grad_enabled(outer):
            with pytest.raises(ZeroDivisionError), mode():
                1 / 0  # noqa: B018
            assert mg.is_grad_enabled() is outer


def test_an_exception_in_a_rule_restores_everything():
    """A rule or hook that raises leaves grad mode, NumPy's error state and the leaves' gradients as they were."""

    @op(x=lambda g: 1 / 0)
    def broken(x):
        return x

    del registry["broken"]
    x = leaf(1.0)
    for create_graph in (False, True):
        state = np.geterr()
        with pytest.raises(ZeroDivisionError):
            broken(x * 2).backward(create_graph=create_graph)
        assert mg.is_grad_enabled()
        assert np.geterr() == state
        assert x.grad is None


def test_a_walk_inside_no_grad():
    """``backward`` works inside ``no_grad`` for a graph recorded before, also with ``create_graph``."""
    x = leaf(3.0)
    y = x**3
    with mg.no_grad():
        (first,) = mg.autograd.grad(y, x, create_graph=True)
        assert not mg.is_grad_enabled()
    assert mg.autograd.grad(first, x)[0].item() == 18


def test_no_grad_belongs_to_its_thread():
    """While one thread is inside ``no_grad``, another records."""
    inside, leave, seen = threading.Event(), threading.Event(), []

    def other():
        with mg.no_grad():
            inside.set()
            leave.wait(30)
            seen.append(mg.is_grad_enabled())

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(30)
    recorded = (leaf(1.0) * 2).requires_grad
    leave.set()
    thread.join()
    assert recorded
    assert seen == [False]


def test_eight_threads_equal_serial():
    """Eight graphs built and walked at the same time give, to the bit, what they give one after the other."""

    def work(seed):
        rng = np.random.default_rng(seed)
        w, x = leaf(rng.normal(size=(6, 6))), mg.tensor(rng.normal(size=(4, 6)))
        for _ in range(20):
            y = registry["layer_norm"](registry["linear"](x, w, None).tanh(), (6,))
            (y.softmax(-1) * x).sum().backward()
            with mg.no_grad():
                w -= 0.1 * w.grad
        return w.tolist()

    serial = [work(seed) for seed in range(8)]
    results = [None] * 8
    start = threading.Barrier(8)

    def run(seed):
        start.wait(30)
        results[seed] = work(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == serial


# --- hooks and gradients on the way ---------------------------------------------------------------


def test_retain_grad():
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


def test_retained_gradient_is_memory_of_its_own():
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


def test_hooks_off_the_path_to_what_is_asked():
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


# --- autograd.grad --------------------------------------------------------------------------------


def test_grad_with_respect_to_what_is_on_the_way():
    """Interior tensors are inputs like any others; ``grad`` fills nobody's ``grad``."""
    x = leaf([1.0, -2.0])
    y = x * 3
    z = y * y
    g = mg.tensor([2.0, -3.0], dtype=mg.float64)
    dx, dy, dz = mg.autograd.grad(z, [x, y, z], g)
    assert (dx.tolist(), dy.tolist(), dz.tolist()) == ([36, 108], [12, 36], [2, -3])
    assert x.grad is y.grad is None


def test_grad_of_an_input_itself():
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


def test_grads_of_several_outputs():
    """The gradient of (y₁, y₂) with cotangents (g₁, g₂) is the sum of both, also of two halves of one split."""
    x = leaf([1.0, -2.0, 3.0, 4.0])
    a, b = x.split(2)
    g = [mg.tensor([2.0, -3.0], dtype=mg.float64), mg.tensor([-1.0, 5.0], dtype=mg.float64)]
    assert mg.autograd.grad([a * a, b], x, g)[0].tolist() == [4, 12, -1, 5]
    y = x.sum()
    assert mg.autograd.grad([y, y], x)[0].tolist() == [2, 2, 2, 2]


def test_unused_inputs():
    """An input that does not lead to the output: an error, or None with ``allow_unused``."""
    x, other = leaf([1.0]), leaf([2.0])
    y = x * 2
    with pytest.raises(RuntimeError, match="allow_unused=True"):
        mg.autograd.grad(y, [x, other], retain_graph=True)
    dx, missing = mg.autograd.grad(y, [x, other], allow_unused=True)
    assert dx.item() == 2
    assert missing is None


def test_errors_of_backward():
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


# --- derivatives of derivatives -------------------------------------------------------------------


def test_third_derivative():
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


# --- the checker ----------------------------------------------------------------------------------


def checked(rule):
    """Return what gradcheck says of x² with this ``rule``, or True."""

    @op(x=rule)
    def squared(x):
        return x * x

    del registry["squared"]
    x = leaf([0.7, -1.3, 2.0])
    try:
        return mg.autograd.gradcheck(squared, x)
    except mg.autograd.GradcheckError as error:
        assert not mg.autograd.gradcheck(squared, x, raise_exception=False)
        return str(error)


def test_gradcheck_accepts_a_right_rule():
    """2xg is the derivative of x², of first and second order."""
    assert checked(lambda g, x: g * 2 * x) is True
    assert mg.autograd.gradgradcheck(lambda x: x * x, leaf([0.7, -1.3])) is True


WRONG_RULES = {
    "999": (lambda g, x: np.full(x.shape, 999.0), "in 3 of 3 entries: at (0,) the rule gives 999, finite"),
    "a missing factor": (lambda g, x: g * x, "0.5 times the right one"),
    "the wrong sign": (lambda g, x: g * -2 * x, "the sign is wrong"),
    "g²": (lambda g, x: g * g * 2 * x, "is wrong in 3 of 3 entries"),
    "|g|": (lambda g, x: np.abs(g) * 2 * x, "is wrong in"),
    "zero": (lambda g, x: g * 0, "it is zero"),
    "NaN": (lambda g, x: g * np.nan, "not finite"),
    "another entry's": (lambda g, x: (g * 2 * x)[::-1], "is wrong in"),
    "one entry wrong": (lambda g, x: g * 2 * x * [1, 1, 1 + 1e-6], "is wrong in 1 of 3 entries: at (2,)"),
}


@pytest.mark.parametrize("name", WRONG_RULES)
def test_gradcheck_refuses_a_wrong_rule(name):
    """It names the entry, both values and the likely cause."""
    rule, message = WRONG_RULES[name]
    said = checked(rule)
    assert said is not True
    assert message in said
    assert "the gradient of input 0" in said
    assert "finite differences give" in said


def test_gradcheck_shows_both_values():
    """Both numbers of the first wrong entry stand in the sentence."""
    said = checked(lambda g, x: np.full(x.shape, 999.0))
    value = float(said.split("finite differences give ")[1].split(";")[0])
    # ± 1.4 · g, and the cotangent g lies in [1/2, 3/2].
    assert 0.7 <= abs(value) <= 2.1


def test_gradgradcheck_refuses_a_rule_that_is_right_once():
    """A rule may return the right gradient and lose its own derivative, by leaving the graph."""

    @op(x=lambda g, x: g * 2 * (x.detach() if isinstance(x, mg.Tensor) else x))
    def squared(x):
        return x * x

    del registry["squared"]
    x = leaf([0.7, -1.3])
    assert mg.autograd.gradcheck(squared, x)
    with pytest.raises(mg.autograd.GradcheckError):
        mg.autograd.gradgradcheck(squared, x)


def test_gradcheck_wants_float64():
    """In float32 differences say nothing at this precision."""
    with pytest.raises(ValueError, match=r"input 0 is float32: use x\.double\(\)"):
        mg.autograd.gradcheck(lambda x: x * 2, mg.ones(2, requires_grad=True))


def test_a_joint_rule_is_asked_only_for_what_is_wanted():
    """A kernel that names ``wanted`` learns which gradients are needed, and a constant's is not."""
    asked = []

    def backward(g, x, y, wanted=()):
        asked.append(set(wanted))
        return g * y, g * x

    @kernel(backward, ["x", "y"])
    def product(x, y):
        return x * y

    del registry["product"]
    x, y = leaf([2.0]), leaf([-3.0])
    product(x, y).backward(mg.tensor([1.0], dtype=mg.float64))
    product(x, y.detach()).backward(mg.tensor([1.0], dtype=mg.float64))
    assert asked == [{"x", "y"}, {"x"}]
    assert (x.grad.item(), y.grad.item()) == (-6, 2)


# --- the ways to switch recording -------------------------------------------------------------------


def test_modes_as_decorators_with_and_without_parentheses():
    @mg.no_grad
    def bare(x):
        return x * 2

    @mg.no_grad()
    def called(x):
        return x * 2

    @mg.set_grad_enabled(False)
    def switched(x):
        return x * 2

    assert mg.is_grad_enabled(), "decorating with set_grad_enabled(False) must not switch recording off"
    x = leaf([1.0])
    for function in (bare, called, switched):
        assert not function(x).requires_grad
        assert mg.is_grad_enabled()


def test_an_argument_without_a_derivative_is_refused_not_dropped():
    x, mask = leaf([[1.0, 2.0], [3.0, -1.0]]), leaf([[0.5, 0.0], [0.0, 0.5]])
    with pytest.raises(RuntimeError, match=r"no derivative with respect to 'mask'.*detach"):
        registry["attention"](x, x, x, mask)


def test_of_values_written_to_one_place_only_the_last_has_a_gradient():
    v = leaf([1.0, 2.0])
    x = mg.zeros(2, dtype=mg.float64)
    x[[0, 0]] = v
    x.backward(mg.tensor([2.0, -3.0], dtype=mg.float64))
    assert v.grad.tolist() == [0, 2]
