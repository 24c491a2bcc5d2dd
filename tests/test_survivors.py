"""What a mutation run found that no other test would notice (see mutation.py), and faults found by programs."""

import itertools

import numpy as np
import pytest
from oracles import assert_close, differences
from strategies import two_sided

import minigrad as mg
import minigrad.kernels.attention
import minigrad.kernels.cross_entropy
import minigrad.kernels.linear
import minigrad.nn.functional as F
import minigrad.special
from minigrad.graph import backward_pass
from minigrad.observers import observing
from minigrad.op import kernel, op, registry


def leaf(array):
    return mg.tensor(np.asarray(array, np.float64), requires_grad=True)


# --- faults found by random programs --------------------------------------------------------------


def test_einsum_of_a_number():
    """An operand without dimensions, as a constant cotangent is one in the second derivative of i,i->."""
    x = leaf([0.5, -2.0])
    (first,) = mg.autograd.grad(mg.einsum("i,i->", x, x), x, create_graph=True)
    (second,) = mg.autograd.grad(first, x, mg.tensor([1.0, 10.0]).double())
    assert second.tolist() == [2.0, 20.0]


@pytest.mark.parametrize("number", [2.0, np.float64(2.0), np.array(2.0)], ids=["float", "scalar", "array"])
def test_a_number_among_tensors_is_brought_to_their_dtype(number):
    """In einsum and stack a number counts as weak, as it does in arithmetic: float32 stays float32."""
    x = mg.tensor([1.0, 3.0], requires_grad=True)
    y = mg.einsum("i,->i", x, number)
    assert y.dtype == np.float32
    y.backward(mg.tensor([1.0, -1.0]))
    assert x.grad.tolist() == [2.0, -2.0]
    assert mg.stack([x.sum(), number]).dtype == np.float32


# --- kernels --------------------------------------------------------------------------------------

CALLS = {
    "attention": (["query", "key", "value"], [(2, 3), (4, 3), (4, 2)]),
    "layer_norm": (["x", "weight", "bias"], [(3, 4), (4,), (4,)]),
    "linear": (["x", "weight", "bias"], [(3, 4), (2, 4), (2,)]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_kernel_computes_what_is_wanted_and_no_more(name, rng):
    """Of every choice of inputs that want a gradient: theirs is that of all at once, the others' is None."""
    arguments, shapes = CALLS[name]
    arrays = {a: two_sided(rng, shape) for a, shape in zip(arguments, shapes, strict=True)}
    options = {"normalized_shape": (4,)} if name == "layer_norm" else {}

    def pulled(wanted):
        inputs = {a: mg.tensor(v, requires_grad=a in wanted) for a, v in arrays.items()}
        out = registry[name](**inputs, **options)
        node = out.grad_fn
        ((rule, where),) = node.plan.rules
        g = two_sided(np.random.default_rng(5), out.shape)
        return dict(zip(arguments, rule(g, *[node.saved[i] for i in where]), strict=True))

    everything = pulled(arguments)
    for n in (1, 2):
        for wanted in itertools.combinations(arguments, n):
            for argument, gradient in pulled(wanted).items():
                if argument in wanted:
                    np.testing.assert_array_equal(gradient, everything[argument])
                else:
                    assert gradient is None


MASKS = [
    None, (), (5,), (1,), (5, 5), (1, 5), (5, 1), (2, 5, 5), (2, 1, 5), (2, 5, 1), (2, 1, 1), (3, 1, 5, 5),
    (3, 2, 5, 1),
]  # fmt: skip


@pytest.mark.parametrize("mask_shape", MASKS, ids=str)
@pytest.mark.parametrize("kind", ["boolean", "added", "kept"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_in_pieces_with_masks_of_every_shape(mask_shape, kind, is_causal, rng, monkeypatch):
    """A causal attention works on a few queries at a time, each with its part of what broadcasts to (…, T, S)."""
    monkeypatch.setattr(minigrad.kernels.attention, "QUERIES_AT_ONCE", 2)
    options = {"is_causal": is_causal}
    if mask_shape is not None:
        seen = np.asarray(rng.random(mask_shape) < 0.7)
        if kind == "kept":  # drawn for the scores, so of no more dimensions
            options["kept"] = mg.from_numpy(np.asarray(2.0 * seen)) if seen.ndim < 4 else None
        else:
            options["mask"] = mg.from_numpy(seen if kind == "boolean" else two_sided(rng, mask_shape))
    arrays = [two_sided(rng, shape) for shape in ((2, 5, 3), (2, 5, 3), (2, 5, 4))]
    results = []
    for function in (registry["attention"], registry["attention"].composed):
        inputs = [leaf(a) for a in arrays]
        out = function(*inputs, **options)
        g = mg.from_numpy(two_sided(np.random.default_rng(3), out.shape))
        results.append([out.detach(), *mg.autograd.grad(out, inputs, g)])
    for ours, expected in zip(*results, strict=True):
        assert_close(ours.numpy(), expected.numpy(), rtol=1e-13)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_in_blocks(approximate, rng, monkeypatch):
    """Value and derivative of every block, the last of which may be smaller."""
    x = two_sided(rng, (3, 5))
    whole, parts = leaf(x), leaf(x)
    expected = F.gelu(whole, approximate)
    monkeypatch.setattr(minigrad.special, "BLOCK", 4)
    found = F.gelu(parts, approximate)
    np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())
    g = mg.from_numpy(two_sided(rng, x.shape))
    (ours,), (theirs,) = mg.autograd.grad(found, parts, g), mg.autograd.grad(expected, whole, g)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    with pytest.raises(RuntimeError, match="approximate must be"):
        F.gelu(parts, "erf")


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (5, 5), (1, 9), (4, 1), (0, 3), (0, 0)], ids=str)
def test_cross_entropy_in_blocks_of_rows(shape, rng, monkeypatch):
    """Also where a block holds less than one row, or there are more rows than columns, or none."""
    monkeypatch.setattr(minigrad.kernels.cross_entropy, "BLOCK", 4)
    logits = two_sided(rng, shape)
    target = mg.from_numpy(rng.integers(0, max(shape[1], 1), shape[0]))
    results = []
    for function in (registry["cross_entropy"], registry["cross_entropy"].composed):
        if function is not registry["cross_entropy"] and not shape[1]:
            continue
        x = leaf(logits)
        loss = function(x, target)
        loss.backward()
        results.append([loss.detach().numpy(), x.grad.numpy()])
    for ours, expected in zip(results[0], results[-1], strict=True):
        assert_close(ours, expected, rtol=1e-14, floor=1e-15)
    assert results[0][1].shape == shape


@pytest.mark.parametrize(
    ("shape", "normalized"), [((4,), 1), ((1, 3, 4), 1), ((3, 1), 2), ((2, 1, 3), 2), ((1, 1, 2), 1)]
)
def test_layer_norm_over_sizes_of_one(shape, normalized, rng):
    """The kernel works on rows; what it returns has the shape of its input, also where sizes are 1."""
    x, g = two_sided(rng, shape), two_sided(rng, shape)

    def value(arrays):
        return float((g * F.layer_norm(mg.from_numpy(arrays[0]), shape[-normalized:], eps=0.1).numpy()).sum())

    input_ = leaf(x)
    out = F.layer_norm(input_, shape[-normalized:], eps=0.1)
    (found,) = mg.autograd.grad(out, input_, mg.from_numpy(g), retain_graph=True)
    (expected,) = differences(value, [x])
    assert_close(found.numpy(), expected, rtol=1e-7, floor=1e-9)
    node = out.grad_fn
    ((rule, where),) = node.plan.rules
    assert rule(g, *[node.saved[i] for i in where])[0].shape == shape


def test_vectors_that_kernels_share_cannot_be_written():
    """They are made once for each size and kept, so that a write would change every later sum."""
    ones = minigrad.kernels.linear.constant(3, 1.0, np.dtype(np.float64))
    with pytest.raises(ValueError, match="read-only"):
        ones[0] = 2.0


def test_layer_norm_of_rows_without_elements():
    x, weight = leaf(np.zeros((3, 0))), leaf(np.zeros(0))
    out = F.layer_norm(x, (0,), weight)
    found = mg.autograd.grad(out, [x, weight], mg.zeros(3, 0).double())
    assert [g.shape for g in found] == [(3, 0), (0,)]


# --- elementwise ----------------------------------------------------------------------------------


def gradient_of(function, *arrays):
    """Return the gradients of Σ function(*arrays) as lists."""
    inputs = [leaf(a) for a in arrays]
    return [g.tolist() for g in mg.autograd.grad(function(*inputs).sum(), inputs)]


def second_derivatives(function, *arrays):
    """Return ∂²/∂xᵢ∂xⱼ of Σ function for all pairs of scalar inputs; None where there is no path."""
    inputs = [leaf(a) for a in arrays]
    first = mg.autograd.grad(function(*inputs), inputs, create_graph=True)
    rows = [mg.autograd.grad(f, inputs, retain_graph=True, allow_unused=True) for f in first if f.requires_grad]
    return [[None if g is None else g.item() for g in row] for row in rows]


@pytest.mark.parametrize(
    ("x", "low", "high", "expected"),
    [
        (1.0, 1.0, 2.0, [1, 0, 0]),  # at a bound: x's, as inside
        (2.0, 1.0, 2.0, [1, 0, 0]),
        (0.0, 1.0, 1.0, [0, 1, 0]),  # outside equal bounds: that of the side
        (3.0, 1.0, 1.0, [0, 0, 1]),
        (0.0, 2.0, 1.0, [0, 0, 1]),  # bounds in the wrong order: the result is the upper one
        (1.5, 2.0, 1.0, [0, 0, 1]),
    ],
)
def test_clamp_shares_its_gradient_with_its_bounds(x, low, high, expected):
    assert gradient_of(lambda x, low, high: x.clamp(low, high), x, low, high) == expected


def test_clamp_with_one_bound():
    x = [0.0, 1.0, 2.0]
    assert gradient_of(lambda x, high: x.clamp(max=high), x, 1.0) == [[1, 1, 0], 1]
    assert gradient_of(lambda x, low: x.clamp(min=low), x, 1.0) == [[0, 1, 1], 1]


def test_what_was_replaced_has_no_gradient():
    x = [np.nan, np.inf, -np.inf, 2.0]
    assert gradient_of(lambda x: x.nan_to_num(0.0, 1.0, -1.0), x) == [[0, 0, 0, 1]]


def test_powers_with_arrays_of_exponents():
    """Also −1, next to the 0 that the rule treats apart; and ∞⁰, whose derivative is 0 and not 0 · ∞."""
    exponents = np.array([-1.0, 0.0, 1.0, 2.0])
    assert gradient_of(lambda x: x**exponents, [2.0] * 4) == [[-0.25, 0, 1, 4]]
    assert gradient_of(lambda x: x ** np.zeros(1), [np.inf]) == [[0]]


def test_second_derivatives_of_powers_of_zero():
    """x⁰ is 1 everywhere, and 0ʸ is 0 for all y > 0: flat in that direction at every order."""
    (row,) = second_derivatives(lambda x: x ** np.zeros(1), [0.0])
    assert row == [0]
    (row,) = second_derivatives(lambda y: mg.tensor([0.0]).double() ** y, [2.0])
    assert row == [0]


@pytest.mark.parametrize(
    "base", [0.9, np.float64(0.9), mg.tensor(0.9, dtype=mg.float64), np.array([0.9])], ids=type
)
def test_a_constant_base_has_all_its_digits(base):
    """Also on the way to a second derivative, and whatever the default dtype is: d²/dy² xʸ = xʸ ln² x."""
    y = leaf([0.5])
    (first,) = mg.autograd.grad(base**y, y, create_graph=True)
    (second,) = mg.autograd.grad(first, y)
    np.testing.assert_allclose(first.detach().numpy(), 0.9**0.5 * np.log(0.9), rtol=1e-15)
    np.testing.assert_allclose(second.numpy(), 0.9**0.5 * np.log(0.9) ** 2, rtol=1e-15)


def test_a_negative_power_of_zero_falls_without_bound():
    """0ʸ is ∞ for y < 0 and 0 for y > 0, and its derivative in y below 0 is −∞."""
    assert gradient_of(lambda y: mg.tensor([0.0]).double() ** y, [-0.5]) == [[-np.inf]]
    assert gradient_of(lambda y: 0.0**y, [-0.5, 0.0, 2.0]) == [[-np.inf, 0, 0]]
    np.testing.assert_array_equal(gradient_of(lambda y: (-2.0) ** y, [2.0]), [[np.nan]])


def test_the_angle_at_the_origin_and_on_the_axes():
    """atan2 has gradient 0 at (0, 0), and so have its derivatives; (0, 1) and (1, 0) lie at distance 1 from it.

    No infinity is met on the way there, which anomaly mode would report.
    """
    assert gradient_of(mg.atan2, [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]) == [[0, 1, 0], [0, 0, -1]]
    with mg.autograd.detect_anomaly():
        for row in second_derivatives(mg.atan2, 0.0, 0.0):
            assert row == [0, 0]


# --- indexing -------------------------------------------------------------------------------------


def test_rows_of_an_empty_table():
    x = leaf(np.zeros((0, 3)))
    (found,) = mg.autograd.grad(x[np.zeros(0, int)].sum(), x)
    assert found.shape == (0, 3)


def test_small_unsigned_indices_do_not_overflow():
    """Row 99 of four columns begins at position 396, which a uint8 can't count."""
    x = leaf(np.zeros((100, 4)))
    (found,) = mg.autograd.grad(x[np.array([99, 99, 1], np.uint8)].sum(), x)
    assert [row.tolist() for row in found.numpy()[[1, 98, 99]]] == [[1] * 4, [0] * 4, [2] * 4]
    assert found.sum().item() == 12


# --- einsum, dimensions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        ("ij,jk", (2, 3), (3, 4)),
        ("ba", (2, 3)),
        ("ii", (3, 3)),
        ("...ij,jk", (2, 2, 3), (3, 4)),
        ("...i->...", (3,)),
        ("...,...", (2,), (3, 2)),
        ("i...,...", (2, 3), (3,)),
        ("i,i", (3,), (3,)),
    ],
    ids=str,
)
def test_einsum_with_what_the_equation_leaves_out(row, rng):
    """Without an arrow the labels that occur once are kept, in alphabetical order, after the ellipsis."""
    equation, *shapes = row
    arrays = [two_sided(rng, shape) for shape in shapes]
    expected = np.einsum(equation, *arrays)
    np.testing.assert_allclose(mg.einsum(equation, *map(mg.from_numpy, arrays)).numpy(), expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("equation", "shapes", "says"),
    [
        ("ij,jk->ik", [(2, 3)], "names 2 operands, but 1 were given"),
        ("ijk->i", [(2, 3)], "'ijk' of .* doesn't fit an operand of 2 dimensions"),
        ("...ijk->i", [(2, 3)], "doesn't fit an operand of 2 dimensions"),
        ("i->i", [(2, 3)], "'i' of .* doesn't fit an operand of 2 dimensions"),
    ],
)
def test_einsum_names_the_operand_that_does_not_fit(equation, shapes, says):
    with pytest.raises(RuntimeError, match=says):
        mg.einsum(equation, *[mg.ones(*shape) for shape in shapes])


@pytest.mark.parametrize("dim", [2, -3, 5])
def test_a_dimension_that_is_not_there(dim):
    x = leaf(np.ones((2, 1)))
    for function in (lambda: x.squeeze(dim), lambda: x.movedim(dim, 0), lambda: x.norm(2, dim)):
        with pytest.raises(IndexError):
            function()
    for dim in (1, -2):
        for y in (leaf([1.0]), leaf(1.0)):
            with pytest.raises(IndexError):
                y.squeeze(dim)
    assert x.squeeze(-1).shape == (2,)
    assert x.movedim(-2, 1).shape == (1, 2)


def test_einsum_of_more_dimensions_than_half_the_alphabet():
    """There are 52 labels; a gradient needs a second one only for a label that its operand has twice."""
    labels = "abcdefghijklmnopqrstuvwxyzABCD"
    x, y = leaf(np.full((1,) * 29 + (2,), 3.0)), leaf(np.full((1,) * 30, 5.0))
    found = mg.autograd.grad(mg.einsum(f"{labels},{labels}->", x, y), [x, y])
    assert [g.shape for g in found] == [x.shape, y.shape]
    assert [g.sum().item() for g in found] == [10, 6]


# --- reductions, shapes ---------------------------------------------------------------------------


@pytest.mark.parametrize("correction", [1, 2])
def test_the_variance_of_too_few_elements_is_undefined(correction):
    """0 / max(0, n − correction): NaN, and so is the gradient."""
    x = leaf([3.0])
    variance = x.var(correction=correction)
    assert np.isnan(variance.item())
    variance.backward()
    assert np.isnan(x.grad.item())


def second_derivative_along(function, x, direction):
    """Return ∂/∂x ⟨∇ Σ function, direction⟩."""
    x, direction = leaf(x), mg.tensor(direction).double()
    (first,) = mg.autograd.grad(function(x).sum(), x, create_graph=True)
    return mg.autograd.grad(first, x, direction)[0].tolist()


@pytest.mark.parametrize(
    "function",
    [lambda x: x.norm(dim=-1), lambda x: x.std(-1), lambda x: x.logsumexp(-1)],
    ids=["norm of 0", "std of a constant", "logsumexp of −∞"],
)
def test_where_the_gradient_is_0_by_convention_so_is_its_derivative(function, request):
    """Beside an ordinary row, whose second derivative is no different for it."""
    row = [-np.inf, -np.inf] if "logsumexp" in request.node.name else [0.0, 0.0]
    alone = second_derivative_along(function, [[1.0, 3.0]], [[1.0, -2.0]])
    assert np.any(alone)
    both = second_derivative_along(function, [[1.0, 3.0], row], [[1.0, -2.0], [1.0, -2.0]])
    assert both == [alone[0], [0, 0]]


def test_a_norm_and_a_deviation_of_exactly_1():
    assert gradient_of(lambda x: x.norm(), [1.0, 0.0]) == [[1, 0]]
    np.testing.assert_allclose(gradient_of(lambda x: x.std(), [1.0, 2.0, 3.0]), [[-0.5, 0, 0.5]], rtol=1e-15)


def test_no_element_is_the_largest_where_one_is_nan():
    """Nor has the gradient of that row a derivative: nothing is divided by the number of largest elements, 0."""
    assert gradient_of(lambda x: x.amax(), [np.nan, 1.0]) == [[0, 0]]
    x, g = leaf([[np.nan, 1.0], [2.0, 1.0]]), leaf([3.0, 5.0])
    (first,) = mg.autograd.grad(x.amax(1), x, g, create_graph=True)
    assert first.tolist() == [[0, 0], [5, 0]]
    assert mg.autograd.grad(first.sum(), g)[0].tolist() == [0, 1]


def test_the_product_over_no_dimension():
    assert gradient_of(lambda x: x.prod(()), [[2.0, 3.0], [4.0, 5.0]]) == [[[1, 1], [1, 1]]]


@pytest.mark.parametrize("dims", [(-2, -1), (-1, -2), (-1, 0), (0, -1)])
def test_diagonals_of_dimensions_counted_from_the_end(dims, rng):
    x, n = leaf(two_sided(rng, (3, 4, 3))), 3
    diagonal = x.diagonal(0, *dims)
    (found,) = mg.autograd.grad(diagonal.sum(), x)
    first, second = (d % 3 for d in dims)
    expected = np.zeros(x.shape)
    for index in np.ndindex(*x.shape):
        expected[index] = index[first] == index[second]
    assert diagonal.shape[-1] == min(x.shape[first], x.shape[second]) == n
    np.testing.assert_array_equal(found.numpy(), expected)


# --- the engine -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: (x.exp(),) * 2, "exp needs its result"),
        (lambda x: (x, x.square()), "square needs its input 'x'"),
        (lambda x: (x, mg.mul(leaf([3.0, 4.0]) * 1, x)), "mul needs its input 'y'"),
        (lambda x: (x, mg.mul(x, leaf([3.0, 4.0]) * 1)), "mul needs its input 'x'"),
        (lambda x: (x, mg.mul((leaf([3.0, 4.0]) * 1).neg_(), x)), "mul needs its input 'y'"),  # 'x' at version 1
        (lambda x: (x, mg.div(leaf([3.0, 4.0]) * 1, x)), "div needs its input 'y'"),
        (lambda x: ((y := mg.div(leaf([3.0, 4.0]) * 1, x)), y), "div needs its result"),
    ],
)
def test_the_value_that_was_overwritten_is_named(function, says):
    written, y = function(leaf([1.0, 2.0]) * 1)
    written[0] = 5.0
    with pytest.raises(RuntimeError, match=says):
        y.sum().backward()


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


def test_a_backward_of_ones_own_may_return_none():
    """For an input that wants a gradient, but has none: nothing arrives there."""

    class First(mg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    x, y = leaf(1.0), leaf(1.0)
    First.apply(x, y).backward()
    assert x.grad.item() == 2.0
    assert y.grad is None


def test_gradients_to_be_differentiated_again_share_no_memory():
    """Both operands of an addition receive the same cotangent, here one that the engine computed."""
    x, z = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    first, second = mg.autograd.grad(((x + z) * 2).sum(), [x, z], create_graph=True)
    assert not np.shares_memory(first.detach().numpy(), second.detach().numpy())


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


def test_a_rule_that_leaves_the_graph():
    """Under ``create_graph`` a rule may return an array all the same: a constant, added up like any gradient."""

    def outside(x):
        return x.detach().numpy() if isinstance(x, mg.Tensor) else x

    @op(x=lambda g, x: outside(g) * 3.0 * outside(x) ** 2)
    def cube(x):
        return x**3

    del registry["cube"]
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


def test_options_after_any_number_of_tensors():
    """A rule gets each by its name, however many tensors stand before them."""

    def gradients(g, tensors, scale, power):
        return [g * scale * power * x ** (power - 1) for x in tensors]

    @kernel(gradients, ["tensors"], promote="common")
    def powers(*tensors, scale=1.0, power=2):
        return scale * sum(x**power for x in tensors)

    del registry["powers"]
    for n in (1, 2, 3):
        inputs = [leaf([1.0 + k, -2.0]) for k in range(n)]
        for x, found in zip(
            inputs, mg.autograd.grad(powers(*inputs, scale=5.0, power=3).sum(), inputs), strict=True
        ):
            np.testing.assert_allclose(found.numpy(), 15 * x.detach().numpy() ** 2, rtol=1e-14)


def test_a_gradient_that_was_saved_is_guarded_against_what_is_added_to_it():
    """Gradients add up in place; that counts as a write, each time, and never makes up for another one."""
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (x * 2).sum().backward()
    for _ in range(2):
        y = x.grad * w
        (x * 3).sum().backward()
        with pytest.raises(RuntimeError, match="mul needs its input 'x'"):
            y.sum().backward()
    y = x.grad * w
    (x * 3).sum().backward()
    with mg.no_grad():
        x.grad.add_(1)
    with pytest.raises(RuntimeError, match="mul needs its input 'x'"):
        y.sum().backward()


def test_gradients_that_can_be_differentiated_add_up():
    """And so do their derivatives: (x³ + x²)′ = 3x² + 2x, whose derivative is 6x + 2."""
    x = leaf([1.0, -2.0])
    for power in (3, 2):
        (x**power).sum().backward(create_graph=True)
    assert x.grad.tolist() == [5, 8]
    assert mg.autograd.grad(x.grad.sum(), x)[0].tolist() == [8, -10]
    x.grad = None


def test_a_kernel_that_answers_for_no_argument_records_nothing():
    @kernel(lambda g: (), [])
    def rounded(x):
        return np.round(x)

    del registry["rounded"]
    assert not rounded(leaf([1.2])).requires_grad


def test_a_rule_whose_gradient_is_not_wanted_does_not_run():
    """``grad(y, x)`` asks for x alone, though another operand requires a gradient as well."""

    def fail(g):
        pytest.fail("the rule of y was run")

    @op(x=lambda g: g, y=fail)
    def first(x, y):
        return x + 0 * y

    del registry["first"]
    x, y = leaf([1.0]), leaf([2.0])
    assert mg.autograd.grad(first(x, y), x)[0].tolist() == [1]


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


def test_several_results_that_are_no_views_are_memory_of_their_own():
    """A write to one changes neither the other nor what both were computed from."""

    @kernel(lambda g: (2 * g[0] + 3 * g[1],), ["x"])
    def twofold(x):
        return 2 * x, 3 * x

    del registry["twofold"]
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

    del registry["exponentials"], registry["forgetful"], registry["parts"]
    x = leaf([0.5, -0.25])
    once, thrice = exponentials(x)
    (found,) = mg.autograd.grad((2 * once - thrice).sum(), x)
    v = x.detach().numpy()
    np.testing.assert_allclose(found.numpy(), 2 * np.exp(v) - 3 * np.exp(3 * v), rtol=1e-14)
    with pytest.raises(RuntimeError, match="forgetful has several results, so that its rule can't name 'out'"):
        forgetful(x)
    assert [part.tolist() for part in parts(x)] == [[0, -1], [1, -1]]
    assert not any(part.requires_grad for part in parts(x))


# --- writes in place ------------------------------------------------------------------------------


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


def test_a_tensor_that_is_updated_becomes_the_result():
    """y *= z puts y in the place of the product; a write to a part of it is an overwrite."""
    y = leaf([1.0, 2.0]) * 1
    y *= leaf([3.0, 4.0])
    assert y.grad_fn.name() == "MulBackward0"
    y[:1] *= 2
    assert y.grad_fn.name() == "OverwriteBackward0"


def test_every_write_counts():
    """A value saved after one write is as well protected against the next one."""
    for write in (lambda y: y.add_(1.0), lambda y: y.__setitem__(0, 1.0)):
        y = leaf([1.0, 2.0]) * 1
        write(y)
        z = y.square()
        write(y)
        with pytest.raises(RuntimeError, match="modified in place"):
            z.sum().backward()


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
    assert [g.item() for g in mg.autograd.grad(view.sum(), [a, b])] == [7, 5]


def test_a_constant_written_through_a_view_taken_before():
    """The view was of memory that needed no gradient; by the time it is written, an element depends on x."""
    x, memory = leaf(3.0), mg.zeros(3).double()
    view = memory[:2]
    memory[0] = x
    memory[2] = x
    view[0] = 7.0
    memory.sum().backward()
    assert x.grad.item() == 1.0


def test_an_update_keeps_the_dtype_of_its_tensor():
    x, wide = mg.tensor([1.0], requires_grad=True), leaf([2.0])
    y = x * 1
    y += wide
    (found,) = mg.autograd.grad(y * 3, y)
    assert y.dtype == found.dtype == np.float32


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


def test_a_write_to_a_leaf_is_not_called_one_to_a_view():
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="on a leaf tensor of shape"):
        x += 1
    with pytest.raises(RuntimeError, match="on a view of a leaf tensor of shape"):
        x[:1] += 1


def test_a_leaf_whose_data_was_replaced_is_not_differentiated_twice_in_silence():
    """The rule on Tensors would take the new value for the old one."""
    x = leaf([1.0])
    y = x.square()
    x.data = mg.tensor([5.0]).double()
    with pytest.raises(RuntimeError, match=r"\.data has been replaced"):
        mg.autograd.grad(y, x, create_graph=True)
