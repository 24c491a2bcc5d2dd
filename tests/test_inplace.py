"""Writes into memory while operations are recorded: right through every view, or refused with a sentence."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import assert_close, differences

import minigrad as mg

# --- random programs of views and writes ----------------------------------------------------------

VIEWS = {
    "t[0]": lambda t: t[0],
    "t[..., 1:]": lambda t: t[..., 1:],
    "t[::-1]": lambda t: t[::-1],
    "t[::2]": lambda t: t[::2],
    "t.T": lambda t: t.T,
    "t[None]": lambda t: t.unsqueeze(0),
    "t.squeeze()": lambda t: t.squeeze(),
    "t.flatten() of contiguous memory": lambda t: t.view(-1) if t.is_contiguous() else t[...],
    "t.unbind()[-1]": lambda t: t.unbind(0)[-1],
    "t.split(1)[0]": lambda t: t.split(1)[0],
}

WRITES = {
    "t += s": lambda t, s: t.__iadd__(s),
    "t -= t.detach-free copy": lambda t, s: t.__isub__(t.clone() * s),
    "t *= s": lambda t, s: t.mul_(s),
    "t /= 2 + s²": lambda t, s: t.div_(s * s + 2),
    "t.copy_(s)": lambda t, s: t.copy_(s),
    "t[0] = s": lambda t, s: t.__setitem__(0, s),
    "t[..., -1:] = s·t": lambda t, s: t.__setitem__((..., slice(-1, None)), s * t[..., -1:].clone()),
    "t[[0, 0]] = s": lambda t, s: t.__setitem__([0, 0], s),
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


def run(steps, x, s, weights):
    """Carry out a program on fresh memory that depends on x and return a number that depends on all of it."""
    aliases = [x * 1.5]
    total = 0.0
    for kind, which, name in [*steps, *(("read", i, "_") for i in range(9))]:
        t = aliases[which % len(aliases)]
        if kind == "view" and t.ndim and t.shape[0]:
            aliases.append(VIEWS[name](t))
        elif kind == "write" and (t.ndim or "[" not in name):
            WRITES[name](t, s)
        elif kind == "read":
            w = mg.from_numpy(np.resize(weights, t.shape))
            total = total + (w * t.exp().sin()).sum()
    return total


@given(programs(), st.sampled_from([(2, 3), (3,), (1, 2, 2)]), st.integers(0, 2**32 - 1))
def test_any_sequence_of_views_and_writes_has_the_gradient_of_what_it_computes(steps, shape, seed):
    """⟨∂L/∂x, ∂L/∂s⟩ of the program equals differences of the number that the very same program computes.

    Elements that a mask compares with 0 or 1 lie away from both, so that no difference steps over a jump.
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.1, 0.6, shape) * rng.choice([-1, 1], shape)
    s = np.asarray(rng.uniform(0.3, 0.6))
    weights = rng.uniform(0.5, 1.5, 7) * rng.choice([-1.0, 1.0], 7)

    def value(arrays):
        return float(run(steps, *map(mg.from_numpy, arrays), weights))

    leaves = [mg.tensor(a, requires_grad=True) for a in (x, s)]
    result = run(steps, *leaves, weights)
    if not isinstance(result, mg.Tensor) or not result.requires_grad:
        return
    expected = differences(value, [x, s])
    for gradient, numeric in zip(mg.autograd.grad(result, leaves, allow_unused=True), expected, strict=True):
        actual = np.zeros(numeric.shape) if gradient is None else gradient.numpy()
        assert_close(actual, numeric, rtol=1e-7, floor=1e-9)


# --- one by one -----------------------------------------------------------------------------------


def test_a_result_built_element_by_element():
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    result = mg.zeros(2, 2)
    for i in range(2):
        for j in range(2):
            result[i, j] = x[i, j] * x[j, i]
    (result * mg.tensor([[1.0, -1.0], [2.0, 0.5]])).sum().backward()
    # L = x₀₀² − x₀₁x₁₀ + 2 x₁₀x₀₁ + x₁₁²/2
    assert x.grad.tolist() == [[2.0, 3.0], [2.0, 4.0]]


def test_writing_through_a_view_reaches_the_owner_and_its_other_views():
    x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    owner = x * 2
    first, last = owner[:2], owner[1:]
    first *= 10
    assert owner.tolist() == [20.0, 40.0, 6.0]
    (last * mg.tensor([1.0, -1.0])).sum().backward()
    assert x.grad.tolist() == [0.0, 20.0, -2.0]


def test_memory_that_needed_no_gradient_starts_to():
    x = mg.tensor(3.0, requires_grad=True)
    memory = mg.zeros(2, 2)
    row = memory[1]
    assert not row.requires_grad
    memory[1, 0] = x * x
    assert row.requires_grad
    assert not row.is_leaf
    row.sum().backward()
    assert x.grad.item() == 6.0


def test_the_old_value_is_kept_for_the_rule_that_needs_it():
    """x ← x · y in place: ∂/∂y needs the x that was overwritten."""
    x = mg.tensor([2.0, 3.0], requires_grad=True)
    y = mg.tensor([5.0, 7.0], requires_grad=True)
    product = x * 1
    product.mul_(y)
    product.sum().backward()
    assert y.grad.tolist() == [2.0, 3.0]
    assert x.grad.tolist() == [5.0, 7.0]


def test_a_value_saved_earlier_and_overwritten_later_is_noticed():
    x = mg.tensor([0.5, 1.0], requires_grad=True)
    y = x.exp()
    y[0] = 7.0
    with pytest.raises(RuntimeError, match=r"exp.*modified in place.*shape \(2,\).*version 1.*version 0.*clone"):
        y.sum().backward()
    y = x * 2
    z = y.square()
    y.T.zero_()
    with pytest.raises(RuntimeError, match=r"square.*modified in place"):
        z.sum().backward()


def test_leaves_that_require_a_gradient_are_not_written():
    x = mg.ones(3, requires_grad=True)
    for write in (
        lambda: x.add_(1),
        lambda: x[0].mul_(2),
        lambda: x.__setitem__(0, 5.0),
        lambda: x.view(3, 1).zero_(),
    ):
        with pytest.raises(RuntimeError, match="leaf"):
            write()
    assert x.tolist() == [1.0, 1.0, 1.0], "what is refused changes nothing"
    with mg.no_grad():
        x += 1
        x[0] = 9.0
    assert x.tolist() == [9.0, 2.0, 2.0]
    assert x.is_leaf
    assert x.requires_grad


def test_memory_that_holds_one_element_in_several_places_is_not_written():
    with pytest.raises(RuntimeError, match="several places"):
        mg.ones(3, 1).expand(3, 3).add_(1)


def test_a_result_that_does_not_fit_is_refused():
    with pytest.raises(RuntimeError, match=r"\(2, 3\).*\(3,\)"):
        mg.ones(3).add_(mg.ones(2, 3))
    with pytest.raises(RuntimeError, match=r"float32.*int64"):
        mg.arange(3).add_(0.5)


def test_views_made_without_recording_join_the_graph_when_their_memory_does():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    memory = x * 3
    with mg.no_grad():
        view = memory[:1]
    memory += x
    (view * -2).sum().backward()
    assert x.grad.tolist() == [-8.0, 0.0]


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


def test_views_of_memory_that_requires_a_gradient_only_later():
    """A view and a write from before belong to no graph; nor does the view afterwards, until it is made anew."""
    memory = mg.ones(3)
    view = memory[:2]
    memory[0] = mg.tensor(2.0)
    memory[1] = 3.0
    memory.requires_grad_()
    assert not view.requires_grad
    assert memory[:2].requires_grad


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


@pytest.mark.parametrize("write", [lambda t: t.mul_(2.0), lambda t: t.__setitem__(0, 5.0)], ids=["mul_", "assign"])
def test_a_second_write_after_the_value_was_saved_is_noticed_like_a_first(write):
    x = mg.tensor([0.5, 1.0], requires_grad=True)
    y = x * 1
    write(y)
    z = y.square()
    write(y)
    with pytest.raises(RuntimeError, match="modified in place"):
        z.sum().backward()


def test_infinity_and_nan_are_values_and_not_warnings():
    x, y = mg.tensor([math.inf, 3e38, 1.0]), mg.tensor([-math.inf, 3e38, 0.0])
    assert x.clone().add_(y).isfinite().tolist() == [False, False, True]
    assert x.clone().div_(y).isfinite().tolist() == [False, True, False]
    assert x.clone().mul_(0.0).isnan().tolist() == [True, False, False]


# --- every method, beside the one that makes a new tensor -----------------------------------------

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
