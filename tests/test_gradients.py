"""Every operation's derivative, of first and second order, against differences of its values.

An operation y = f(x₁, …, xₙ) is right if for every cotangent g (of y's shape) the engine returns

    ∂ ⟨g, f(x)⟩ / ∂xᵢ        where ⟨g, y⟩ = Σ g · y,

and the right-hand side is a number's derivative, which differences give without any rule.  ``CASES`` of
``gradient_cases`` says for each operation in the registry how to draw arguments for it; what must hold of all of
them is stated here, once.  An operation without a case fails the suite.

Cotangents have random entries of both signs.  With ones, or a bare ``sum()``, a rule that squares its cotangent,
drops its sign or mixes up its entries would pass.
"""

import numpy as np
import pytest
from gradient_cases import CASES
from gradient_cases.indexing import INDICES
from gradient_cases.linalg import EINSUMS, MATMUL_SHAPES
from gradient_cases.problem import Problem, gradients, leaves, tensors
from hypothesis import given
from hypothesis import strategies as st
from oracles import assert_close, differences, weighted
from strategies import generators, laid_out, two_sided

import minigrad as mg
from minigrad.op import registry


def test_every_operation_has_a_case():
    """An operation that can be differentiated and has no case is an operation that nobody checks."""
    differentiable = {
        name
        for name, operation in registry.items()
        if (operation.rules or operation.joint) and operation.forward.__module__.startswith("minigrad")
    }
    missing = sorted(differentiable - CASES.keys())
    assert not missing, f"operations without a case in CASES: {', '.join(missing)}"


every_operation = pytest.mark.parametrize("name", CASES)


def draw_cotangents(data, shapes_):
    """Draw cotangents of both signs, in any layout: also of stride 0, as ``sum`` hands them on."""
    rng = data.draw(generators())
    return [data.draw(laid_out(two_sided(rng, shape))) for shape in shapes_]


@every_operation
@given(data=st.data())
def test_first_order(name, data):
    """∂⟨g, f(x)⟩/∂x equals its differences, to 10⁻⁸ of the largest entry; in float32, to float32's precision.

    The floor, 10⁻¹⁰ of the value that was differenced, is what rounding leaves of a derivative that is 0.
    The float32 run is compared with the float64 one at the same (rounded) numbers: its dtype must be float32
    throughout, and its error a few units in the last place, 10⁻⁷, times a condition number below 100.
    """
    problem = data.draw(CASES[name])
    values = problem.values(problem.arrays)
    cotangents = draw_cotangents(data, [y.shape for y in values])
    actual = gradients(problem, problem.arrays, tensors(cotangents))

    expected = differences(lambda arrays: weighted(problem.values(arrays), cotangents), problem.arrays)
    floor = 1e-10 * (1 + sum(float(np.sum(np.abs(c * y))) for y, c in zip(values, cotangents, strict=True)))
    for a, e, x in zip(actual, expected, problem.arrays, strict=True):
        assert a.dtype == np.float64
        assert a.shape == x.shape
        assert_close(a, e, rtol=1e-8, floor=floor)

    short = [x.astype(np.float32) for x in problem.arrays]
    inputs = leaves(short)
    outputs = problem.outputs(inputs, np.float32)
    assert all(y.dtype == np.float32 for y in outputs)
    short_cotangents = [c.astype(np.float32) for c in cotangents]
    found = mg.autograd.grad(outputs, inputs, tensors(short_cotangents))
    rounded = Problem(problem.call, problem.arrays, [c.astype(np.float32) for c in problem.constants])
    expected = gradients(
        rounded,
        [x.astype(np.float64) for x in short],
        tensors([c.astype(float) for c in short_cotangents]),
    )
    for g, e in zip(found, expected, strict=True):
        assert g.dtype == np.float32
        assert_close(g.numpy(), e, rtol=1e-5, floor=1e-6)


@every_operation
@given(data=st.data())
def test_second_order(name, data):
    """The gradient G(x, g) = ∂⟨g, f(x)⟩/∂x is a function like any other: its derivatives equal differences.

    With ``create_graph=True`` the rules run on Tensors.  First they must return what they return on arrays,
    to 10⁻¹² (and 10⁻¹³ where terms near 1 cancel to 0); then ∂⟨w, G⟩/∂x (a Hessian–vector product) and
    ∂⟨w, G⟩/∂g (forward-mode J w) must be right.
    """
    problem = data.draw(CASES[name])
    n = len(problem.arrays)
    shapes_ = [y.shape for y in problem.values(problem.arrays)]
    cotangents = draw_cotangents(data, shapes_)
    weights = draw_cotangents(data, [x.shape for x in problem.arrays])

    inputs, cotangent_leaves = leaves(problem.arrays), leaves(cotangents)
    first = mg.autograd.grad(problem.outputs(inputs), inputs, cotangent_leaves, create_graph=True)
    for recorded, plain in zip(first, gradients(problem, problem.arrays, tensors(cotangents)), strict=True):
        assert_close(recorded.detach().numpy(), plain, rtol=1e-12, floor=1e-13)

    variables = [*inputs, *cotangent_leaves]
    found = mg.autograd.grad(first, variables, tensors(weights), allow_unused=True)
    actual = [np.zeros(v.shape) if g is None else g.numpy() for g, v in zip(found, variables, strict=True)]

    def weighted_gradient(arrays):
        return weighted(gradients(problem, arrays[:n], tensors(arrays[n:])), weights)

    expected = differences(weighted_gradient, [*problem.arrays, *cotangents])
    floor = 1e-10 * (1 + abs(weighted_gradient([*problem.arrays, *cotangents])))
    for a, e in zip(actual, expected, strict=True):
        assert_close(a, e, rtol=1e-8, floor=floor, what="second derivative")


@every_operation
@given(data=st.data())
def test_gradients_are_linear_and_owned(name, data):
    """A gradient is linear in the cotangent, to the bit; it is memory of its own, and nothing else changes.

    Linear: g = 0 gives exactly 0, and 2g exactly twice the gradient (a power of two changes no rounding).
    Owned: the engine adds gradients in place, so one that were a view of the cotangent, of an input, of an
    output or of another gradient would change them later; and a rule that works in place would change them now.
    """
    problem = data.draw(CASES[name])
    before = [x.copy() for x in problem.arrays]
    inputs = leaves(problem.arrays)
    outputs = problem.outputs(inputs)
    values = [y.detach().numpy().copy() for y in outputs]
    cotangents = draw_cotangents(data, [y.shape for y in outputs])
    cotangents_before = [c.copy() for c in cotangents]

    found = [g.numpy() for g in mg.autograd.grad(outputs, inputs, tensors(cotangents), retain_graph=True)]

    others = [*problem.arrays, *problem.constants, *cotangents, *(y.detach().numpy() for y in outputs)]
    for i, g in enumerate(found):
        assert g.flags.writeable
        assert not any(np.shares_memory(g, other) for other in [*found[:i], *others])
    for x, old in zip(problem.arrays, before, strict=True):
        np.testing.assert_array_equal(x, old)
    for c, old in zip(cotangents, cotangents_before, strict=True):
        np.testing.assert_array_equal(c, old)
    for y, old in zip(outputs, values, strict=True):
        np.testing.assert_array_equal(y.detach().numpy(), old)

    # All three in one layout: a matrix product may take another path, and round otherwise, in another.
    plain = [np.array(c, order="C") for c in cotangents]
    once, twice, zero = (
        mg.autograd.grad(outputs, inputs, tensors([factor * c for c in plain]), retain_graph=True)
        for factor in (1, 2, 0)
    )
    for g1, g2, g0 in zip(once, twice, zero, strict=True):
        np.testing.assert_array_equal(g2.numpy(), 2 * g1.numpy())
        assert not g0.numpy().any()


@every_operation
@given(data=st.data())
def test_a_rule_computes_in_the_dtype_of_its_operands(name, data):
    """Of float32 operands and cotangent a rule returns float32 itself, before the engine sees to it.

    A rule that widened would be right, for the engine brings its result back to float32; but it would take twice
    the memory, and the result would depend on what else is computed with it.
    """
    problem = data.draw(CASES[name])
    inputs = leaves([x.astype(np.float32) for x in problem.arrays])
    outputs = problem.outputs(inputs, np.float32)
    cotangents = [c.astype(np.float32) for c in draw_cotangents(data, [y.shape for y in outputs])]
    found = []

    def watched(operation, node, g, useful, values=None):
        gradients = plain(operation, node, g, useful, values)
        found.extend((operation.name, gradient.dtype) for gradient in gradients if gradient is not None)
        return gradients

    plain = mg.op.Op.pullback
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mg.op.Op, "pullback", watched)
        mg.autograd.grad(outputs, inputs, tensors(cotangents), allow_unused=True)
    assert found
    assert {dtype for _, dtype in found} == {np.dtype(np.float32)}, found


# --- lists too long to be drawn from, each row of which must hold -----------------------------------


def check_both_orders(function, *input_shapes):
    """Hold the first and second derivative of ``function`` to differences at random inputs of these shapes."""
    rng = np.random.default_rng(0)
    inputs = leaves([two_sided(rng, shape) for shape in input_shapes])
    assert mg.autograd.gradcheck(function, inputs)
    assert mg.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("equation", EINSUMS, ids=lambda row: f"{row[0]} {row[1:]}")
def test_every_einsum(equation):
    """Labels summed, kept, repeated within an operand, broadcast, and hidden in an ellipsis."""
    check_both_orders(lambda *xs: mg.einsum(equation[0], *xs), *equation[1:])


REDUCTIONS = {
    "sum": lambda x, dim, keepdim: x.sum(dim, keepdim),
    "mean": lambda x, dim, keepdim: x.mean(dim, keepdim),
    "var": lambda x, dim, keepdim: x.var(dim, keepdim=keepdim),
    "std": lambda x, dim, keepdim: x.std(dim, keepdim=keepdim),
    "amax": lambda x, dim, keepdim: x.amax(dim, keepdim),
    "amin": lambda x, dim, keepdim: x.amin(dim, keepdim),
    "prod": lambda x, dim, keepdim: x.prod(dim, keepdim),
    "norm": lambda x, dim, keepdim: x.norm(dim=dim, keepdim=keepdim),
    "logsumexp": lambda x, dim, keepdim: x.logsumexp((0, 1) if dim is None else dim, keepdim),
}


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1, (0, 1), (-1,), None], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_reduction(name, dim, keepdim):
    """Over each dimension of a square, where a gradient that isn't put back beside its rows fits all the same."""
    check_both_orders(lambda x: REDUCTIONS[name](x, dim, keepdim), (3, 3))


@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("dims", [(0, 1), (1, 0), (-1, -2)], ids=str)
def test_every_diagonal(offset, dims):
    """Above, on and below the main one, in either order of the dimensions."""
    check_both_orders(lambda x: x.diagonal(offset, *dims), (3, 4))


@pytest.mark.parametrize("pair", MATMUL_SHAPES, ids=str)
def test_every_matmul(pair):
    """Vectors, matrices and batches on either side."""
    check_both_orders(mg.matmul, *pair)


@pytest.mark.parametrize(
    ("shape", "index"),
    [(shape, index) for shape, indices in INDICES.items() for index in indices],
    ids=lambda value: repr(value).replace("\n", ""),
)
def test_every_index(shape, index):
    """Every way to index, basic and advanced, alone and mixed; positions that repeat add up."""
    check_both_orders(lambda x: x[index], shape)
