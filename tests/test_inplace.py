"""Writes into memory while operations are recorded: right through every view, or refused with a sentence."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import assert_close, differences
from strategies import two_sided
from tensors import leaf

import minigrad as mg

# --- random programs of views and writes ------------------------------------------------------------


VIEWS = {
    "t[0]": lambda t: t[0],
    "t[1:]": lambda t: t[1:],
    "t[..., 1:]": lambda t: t[..., 1:],
    "t[..., 0]": lambda t: t[..., 0],
    "t[:]": lambda t: t[:],
    "t[::-1]": lambda t: t[::-1],
    "t[::2]": lambda t: t[::2],
    "t.T": lambda t: t.T,
    "t.transpose(0, -1)": lambda t: t.transpose(0, -1),
    "t[None]": lambda t: t.unsqueeze(0),
    "t.squeeze()": lambda t: t.squeeze(),
    "t.flatten() of contiguous memory": lambda t: t.view(-1) if t.is_contiguous() else t[...],
    "t.unbind()[-1]": lambda t: t.unbind(0)[-1],
    "t.unbind(-1)[-1]": lambda t: t.unbind(-1)[-1],
    "t.split(1)[0]": lambda t: t.split(1)[0],
}

WRITES = {
    "t += s": lambda t, s: t.__iadd__(s),
    "t += 2 s": lambda t, s: t.add_(s, alpha=2),
    "t -= t.detach-free copy": lambda t, s: t.__isub__(t.clone() * s),
    "t -= 1/4": lambda t, s: t.__isub__(0.25),
    "t *= s": lambda t, s: t.mul_(s),
    "t *= t, t /= 4": lambda t, s: t.mul_(t).div_(4),
    "t /= 2 + s²": lambda t, s: t.div_(s * s + 2),
    "t.copy_(s + 1)": lambda t, s: t.copy_(s + 1),
    "t[0] = s": lambda t, s: t.__setitem__(0, s),
    "t[...] = s/2": lambda t, s: t.__setitem__(Ellipsis, s * 0.5),
    "t[..., -1:] = s·t": lambda t, s: t.__setitem__((..., slice(-1, None)), s * t[..., -1:].clone()),
    "t[[0, 0]] = s": lambda t, s: t.__setitem__([0, 0], s),
    "t[[0, -1]] = s": lambda t, s: t.__setitem__([0, -1] if len(t) > 1 else [0], s),
    "t[t > 0] = s": lambda t, s: t.__setitem__(t > 0, s),
    "t.masked_fill_": lambda t, s: t.masked_fill_(t > 1, 0.25),
    "t.zero_()": lambda t, s: t.zero_(),
    "t.fill_(3)": lambda t, s: t.fill_(3.0),
}


@st.composite
def programs(draw):
    """Draw steps: make a view of one of the tensors, write into one, or read one into the result."""
    steps = []
    for _ in range(draw(st.integers(2, 8))):
        which = draw(st.integers(0, 20))
        kind = draw(st.sampled_from(["view", "write", "write", "read"]))
        steps.append((kind, which, draw(st.sampled_from(sorted({"view": VIEWS, "write": WRITES}.get(kind, "_"))))))
    return steps


def run(steps, x, s, weights, late):
    """Carry out a program on fresh memory and return a number that depends on all of it.

    The memory depends on x from the start, or, ``late``, on nothing until something is written.
    """
    aliases = [mg.full_like(x, 0.8).detach() if late else x * 1.5]
    total = 0.0
    for kind, which, name in [*steps, *(("read", i, "_") for i in range(9))]:
        t = aliases[which % len(aliases)]
        if kind == "view" and t.ndim and t.numel():
            aliases.append(VIEWS[name](t))
        elif kind == "write" and t.numel() and (t.ndim or "[" not in name):
            WRITES[name](t, s)
        elif kind == "read":
            w = mg.from_numpy(np.resize(weights, t.shape))
            total = total + (w * (t / 2).tanh()).sum()
    return total


@settings(max_examples=2 * settings.default.max_examples)
@given(programs(), st.sampled_from([(2, 3), (3,), (1, 2, 2)]), st.integers(0, 2**32 - 1), st.booleans())
def test_any_sequence_of_views_and_writes_has_the_gradient_of_what_it_computes(steps, shape, seed, late):
    """⟨∂L/∂x, ∂L/∂s⟩ of the program equals differences of the number that the very same program computes.

    Elements that a mask compares with 0 or 1 lie away from both, so that no difference steps over a jump.
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.1, 0.6, shape) * rng.choice([-1, 1], shape)
    s = np.asarray(rng.uniform(0.3, 0.6))
    weights = rng.uniform(0.5, 1.5, 7) * rng.choice([-1.0, 1.0], 7)

    def value(arrays):
        return float(run(steps, *map(mg.from_numpy, arrays), weights, late))

    leaves = [mg.tensor(a, requires_grad=True) for a in (x, s)]
    result = run(steps, *leaves, weights, late)
    if not isinstance(result, mg.Tensor) or not result.requires_grad:
        return
    expected = differences(value, [x, s])
    for gradient, numeric in zip(mg.autograd.grad(result, leaves, allow_unused=True), expected, strict=True):
        actual = np.zeros(numeric.shape) if gradient is None else gradient.numpy()
        assert_close(actual, numeric, rtol=1e-7, floor=1e-9)


# --- writes that are recorded -----------------------------------------------------------------------


def test_a_result_built_element_by_element():
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    result = mg.zeros(2, 2)
    for i in range(2):
        for j in range(2):
            result[i, j] = x[i, j] * x[j, i]
    (result * mg.tensor([[1.0, -1.0], [2.0, 0.5]])).sum().backward()
    # L = x₀₀² − x₀₁x₁₀ + 2 x₁₀x₀₁ + x₁₁²/2
    assert x.grad.tolist() == [[2.0, 3.0], [2.0, 4.0]]


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


def test_of_values_written_to_one_place_only_the_last_has_a_gradient():
    v = leaf([1.0, 2.0])
    x = mg.zeros(2, dtype=mg.float64)
    x[[0, 0]] = v
    x.backward(mg.tensor([2.0, -3.0], dtype=mg.float64))
    assert v.grad.tolist() == [0, 2]


def test_value_with_a_leading_one_written_into_a_row():
    """NumPy writes a (1, 3) value into a (3,) row; its gradient has the value's shape."""
    x, v = mg.zeros(2, 3, dtype=mg.float64), leaf([[1.0, 2.0, 3.0]])
    x[0] = v
    x.backward(mg.tensor([[2.0, -3.0, 1.0], [9.0, 9.0, 9.0]], dtype=mg.float64))
    assert v.grad.tolist() == [[2, -3, 1]]


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 3), (2, 3), (1, 2, 3), (1, 1, 4, 2, 3)], ids=str)
def test_values_of_any_shape_that_broadcasts(shape, rng):
    """Into memory (4, 2, 3): fewer dimensions, and more if the leading ones are 1."""
    x, g = leaf(two_sided(rng, shape)), two_sided(rng, (4, 2, 3))
    memory = mg.zeros(4, 2, 3).double()
    memory[...] = x
    (found,) = mg.autograd.grad(memory, x, mg.from_numpy(g))
    expected = g[(None,) * max(0, len(shape) - 3)]
    axes = tuple(range(expected.ndim - len(shape)))
    expected = expected.sum(axes)
    ones = tuple(i for i, n in enumerate(shape) if n == 1)
    np.testing.assert_allclose(found.numpy(), expected.sum(ones, keepdims=True), rtol=1e-14)


def test_one_element_written_as_a_vector_of_one():
    x, memory = leaf([3.0]), mg.zeros(2).double()
    memory[0] = x
    (memory * mg.tensor([5.0, 7.0]).double()).sum().backward()
    assert x.grad.tolist() == [5.0]


@pytest.mark.parametrize(
    ("update", "slope"),
    [
        (lambda y: y.sin_(), np.cos),
        (lambda y: y.mul_(y), lambda x: 2 * x),
        (lambda y: y.pow_(y), lambda x: x**x * (np.log(x) + 1)),
        (lambda y: y.pow_(leaf([2.0, 3.0])), lambda x: np.array([2, 3]) * x ** [1, 2]),
        (lambda y: y.exp_(), np.exp),
    ],
    ids=["sin_", "mul_ by itself", "pow_ by itself", "pow_", "exp_"],
)
def test_an_update_keeps_the_old_value_for_its_rule(update, slope):
    """Once or twice, alone or beside others; the result that a rule needs is the one that is there."""
    x, g = leaf([0.5, 2.0]), mg.tensor([2.0, -3.0]).double()
    y = x * 1
    update(y)
    (found,) = mg.autograd.grad(y, x, g)
    np.testing.assert_allclose(found.numpy(), slope(x.detach().numpy()) * g.numpy(), rtol=1e-14)


def test_an_update_keeps_the_dtype_of_its_tensor():
    x, wide = mg.tensor([1.0], requires_grad=True), leaf([2.0])
    y = x * 1
    y += wide
    (found,) = mg.autograd.grad(y * 3, y)
    assert y.dtype == found.dtype == np.float32


def test_a_tensor_that_is_updated_becomes_the_result():
    """y *= z puts y in the place of the product; a write to a part of it is an overwrite."""
    y = leaf([1.0, 2.0]) * 1
    y *= leaf([3.0, 4.0])
    assert y.grad_fn.name() == "MulBackward0"
    y[:1] *= 2
    assert y.grad_fn.name() == "OverwriteBackward0"


def test_memory_that_needed_no_gradient_starts_to():
    x = mg.tensor(3.0, requires_grad=True)
    memory = mg.zeros(2, 2)
    row = memory[1]
    assert not row.requires_grad
    memory[1, 0] = x * x
    assert row.requires_grad
    assert not row.is_leaf
    row.backward(mg.tensor([-2.0, 5.0]))
    assert x.grad.item() == -12.0


def test_second_order_through_a_write():
    x = mg.tensor([0.3, -0.7], dtype=mg.float64, requires_grad=True)

    def written(x):
        y = x * 1
        y[0] = x[1] ** 3
        y *= x
        return y

    assert mg.autograd.gradcheck(written, x)
    assert mg.autograd.gradgradcheck(written, x)


def test_a_detached_write_counts_but_is_not_recorded():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    y.detach().add_(1)
    assert y.tolist() == [2.0, 3.0]
    (y * mg.tensor([3.0, -1.0])).sum().backward()
    assert x.grad.tolist() == [3.0, -1.0]


def test_infinity_and_nan_are_values_and_not_warnings():
    x, y = mg.tensor([math.inf, 3e38, 1.0]), mg.tensor([-math.inf, 3e38, 0.0])
    assert x.clone().add_(y).isfinite().tolist() == [False, False, True]
    assert x.clone().div_(y).isfinite().tolist() == [False, True, False]
    assert x.clone().mul_(0.0).isnan().tolist() == [True, False, False]


# --- views ------------------------------------------------------------------------------------------


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


def test_a_view_sees_every_recorded_write():
    """The second one as well as the first, whatever was written unrecorded between."""
    x, a, b = leaf([1.0, 2.0, 3.0]), leaf(5.0), leaf(7.0)
    base = x * 1
    view = base[:2]
    with mg.no_grad():
        base[2] = 5.0
    base[0] = a
    assert view.sum().requires_grad
    base[1] = b
    found = mg.autograd.grad((view * mg.tensor([2.0, 3.0]).double()).sum(), [a, b, x])
    assert [g.tolist() for g in found] == [2, 3, [0, 0, 0]]


def test_a_view_sees_every_update():
    a, b = leaf(5.0), leaf(7.0)
    base = leaf([1.0, 2.0]) * 1
    view = base[:1]
    base.mul_(a)
    assert view.item() == 5.0
    view.sum()
    base.mul_(b)
    assert [g.item() for g in mg.autograd.grad(view * -2, [a, b])] == [-14, -10]


def test_a_constant_written_through_a_view_taken_before():
    """The view was of memory that needed no gradient; by the time it is written, an element depends on x."""
    x, memory = leaf(3.0), mg.zeros(3).double()
    view = memory[:2]
    memory[0] = x
    memory[2] = x
    view[0] = 7.0
    memory.backward(mg.tensor([2.0, 3.0, -5.0]).double())
    assert x.grad.item() == -5.0


def test_a_write_that_is_not_recorded_leaves_a_view_where_it_is():
    """Its node, and with it the hooks and the retained gradient, stay: only a recorded write moves it."""
    base = leaf([1.0, 2.0]) * 1
    view = base[:1]
    view.retain_grad()
    node = view.grad_fn
    with mg.no_grad():
        base[1] = 5.0
    assert view.grad_fn is node
    (view * 3).sum().backward()
    assert view.grad.tolist() == [3]


@pytest.mark.parametrize("cut", [lambda x: x.unbind(), lambda x: x.split([1, 2]), lambda x: x.chunk(3)])
def test_pieces_of_a_tensor_are_views_of_it(cut):
    """A write to one is a write to the whole, and with nothing recorded they need no gradient."""
    x, factor = leaf([1.0, 2.0, 3.0]), leaf(5.0)
    base = x * 1
    pieces = cut(base)
    pieces[1].mul_(factor)
    found = mg.autograd.grad(base, [x, factor], mg.tensor([2.0, 3.0, 0.0]).double())
    assert [g.tolist() for g in found] == [[2, 15, 0], 6]
    with mg.no_grad():
        assert not any(piece.requires_grad for piece in cut(base))


def test_views_made_without_recording_join_the_graph_when_their_memory_does():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    memory = x * 3
    with mg.no_grad():
        view = memory[:1]
    memory += x
    (view * -2).sum().backward()
    assert x.grad.tolist() == [-8.0, 0.0]


def test_views_of_memory_that_requires_a_gradient_only_later():
    """A view and a write from before belong to no graph; nor does the view afterwards, until it is made anew."""
    memory = mg.ones(3)
    view = memory[:2]
    memory[0] = mg.tensor(2.0)
    memory[1] = 3.0
    memory.requires_grad_()
    assert not view.requires_grad
    assert memory[:2].requires_grad


# --- what is refused --------------------------------------------------------------------------------


def test_leaves_that_require_a_gradient_are_not_written():
    """A leaf that wants a gradient has none after being overwritten: an error, and the way out in it."""
    x = mg.ones(3, requires_grad=True)
    for write, what in (
        (lambda: x.add_(1), "a leaf"),
        (lambda: x.zero_(), "a leaf"),
        (lambda: x.__imul__(2), "a leaf"),
        (lambda: x.__setitem__(0, 5.0), "a leaf"),
        (lambda: x[0].mul_(2), "a view of a leaf"),
        (lambda: x[1:].mul_(2), "a view of a leaf"),
        (lambda: x.view(3, 1).zero_(), "a view of a leaf"),
    ):
        with pytest.raises(RuntimeError, match=rf"on {what} tensor of shape \(.*no_grad"):
            write()
    assert x.tolist() == [1.0, 1.0, 1.0], "what is refused changes nothing"
    with mg.no_grad():
        x += 1
        x[0] = 9.0
    assert x.tolist() == [9.0, 2.0, 2.0]
    assert x.is_leaf
    assert x.requires_grad


@pytest.mark.parametrize(
    "write",
    [lambda v: v.mul_(2.0), lambda v: v.add_(mg.ones(1)), lambda v: v.tanh_(), lambda v: v.__setitem__(0, 5.0)],
    ids=["mul_", "add_", "tanh_", "assign"],
)
@pytest.mark.parametrize("what", ["leaf", "middle"])
def test_a_view_made_without_recording_is_not_written_while_recording(write, what):
    """The view doesn't know its owner's place in the graph, so the write would be lost: PyTorch refuses it too."""
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    owner = x if what == "leaf" else x * 1
    with mg.no_grad():
        view = owner[:1]
    with pytest.raises(RuntimeError, match=r"view of shape \(1,\) that was made inside `with mg.no_grad\(\):`"):
        write(view)
    assert owner.tolist() == [1.0, 2.0], "what is refused changes nothing"
    with mg.no_grad():
        write(view)
    assert owner.tolist() != [1.0, 2.0]


def test_memory_that_holds_one_element_in_several_places_is_not_written():
    with pytest.raises(RuntimeError, match="several places"):
        mg.ones(3, 1).expand(3, 3).add_(1)


def test_a_result_that_does_not_fit_is_refused():
    with pytest.raises(RuntimeError, match=r"\(2, 3\), which doesn't fit into \(3,\)"):
        mg.ones(3).add_(mg.ones(2, 3))
    with pytest.raises(RuntimeError, match=r"float32.*int64"):
        mg.arange(3).add_(0.5)


# --- every method, beside the one that makes a new tensor -------------------------------------------


OTHER, INDEX = mg.tensor([[0.5, 2.0, 1.5], [0.25, 1.0, 3.0]], dtype=mg.float64), mg.tensor([1])
ARGUMENTS = {
    **dict.fromkeys(("add", "sub", "mul", "div", "pow"), (OTHER,)),
    **dict.fromkeys(("addcmul", "addcdiv"), (OTHER, OTHER + 1)),
    "lerp": (OTHER, 0.25),
    "clamp": (0.5, 1.25),
    "masked_fill": (OTHER > 1, 7.0),
    "scatter": (1, INDEX.expand(2, 1), OTHER),
    "scatter_add": (1, INDEX.expand(2, 1), OTHER),
    "index_add": (1, INDEX, OTHER[:, :1]),
    "index_fill": (1, INDEX, 7.0),
}
WITHOUT_A_TWIN = {"copy_", "fill_", "fill_diagonal_", "normal_", "requires_grad_", "uniform_", "zero_"}
IN_PLACE = sorted(
    name for name in dir(mg.Tensor) if name.endswith("_") and name[0] != "_" and name not in WITHOUT_A_TWIN
)


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_method_in_place_does_what_the_one_without_underscore_does(name):
    twin, arguments = name.removesuffix("_"), ARGUMENTS.get(name.removesuffix("_"), ())
    x = mg.tensor([[0.3, 1.2, 0.7], [1.5, 0.9, 2.6]], dtype=mg.float64, requires_grad=True)
    expected = getattr(x * 1, twin)(*arguments)
    (wanted,) = mg.autograd.grad((expected * OTHER).sum(), x)
    y = x * 1
    memory = y.detach()
    assert getattr(y, name)(*arguments) is y
    assert memory.tolist() == y.tolist() == expected.tolist()
    (got,) = mg.autograd.grad((y * OTHER).sum(), x)
    assert_close(got.numpy(), wanted.numpy(), rtol=1e-15)


def test_there_is_a_case_for_every_method_in_place():
    assert len(IN_PLACE) > 25
    assert set(ARGUMENTS) <= {name.removesuffix("_") for name in IN_PLACE}
