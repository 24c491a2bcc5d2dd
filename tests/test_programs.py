"""Random programs against everything that is known of a gradient without knowing the rules.

A program (see :mod:`programs`) computes outputs y = f(x) from leaves x, and its gradient with cotangents c is
∇ = Jᵀ c, where J = ∂y/∂x.  Each test below draws programs and holds ∇ to one independent truth, stated in its
docstring.  On failure Hypothesis shrinks the program to a few lines and prints it as a script to be run.

``pytest -s`` prints at the end how many programs each test has run.  ``HYPOTHESIS_PROFILE=thorough`` runs many
times as many, drawn anew each time.
"""

import contextlib
import gc
import io
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, seed, settings
from oracles import assert_close
from programs import Leaf, Program, Step, another_order, numbers, programs
from strategies import generators

import minigrad as mg
from minigrad.graph import Node

STEPS = (4e-4, 2e-4)  # of the two stencils
COUNT: Counter[str] = Counter()
SOME = settings(max_examples=6 * settings().max_examples)  # for oracles that run a program many times
MANY = settings(max_examples=9 * settings().max_examples)


@pytest.fixture(scope="module", autouse=True)
def report():
    """Print how many programs were run (visible under ``pytest -s``)."""
    yield
    total = sum(n for name, n in COUNT.items() if not name.startswith("("))
    if total:
        print(f"\n{total} random programs:", ", ".join(f"{name} {n}" for name, n in sorted(COUNT.items())))


def leaves_of(program):
    """Return fresh Tensors of the program's inputs."""
    pairs = zip(program.leaves, program.arrays(), strict=True)
    return [mg.from_numpy(a).requires_grad_(leaf.wanted) for leaf, a in pairs]


def wanted(program, values):
    """Return those of ``values`` (one for each leaf) that belong to leaves whose gradient is wanted."""
    return [values[i] for i in program.wanted]


def pull(program, cotangents=None, leaves=None, **options):
    """Return ∇ as Tensors, zeros where an output does not depend on a leaf."""
    leaves = leaves_of(program) if leaves is None else leaves
    outputs = program.run(leaves)
    given_ = [
        c if isinstance(c, mg.Tensor) else mg.from_numpy(np.asarray(c)) for c in cotangents or program.cotangents
    ]
    used = [(y, c) for y, c in zip(outputs, given_, strict=True) if y.requires_grad]
    inputs = wanted(program, leaves)
    ys, cs = [y for y, _ in used], [c for _, c in used]
    found = mg.autograd.grad(ys, inputs, cs, allow_unused=True, **options) if used else [None] * len(inputs)
    return [mg.zeros(x.shape).double() if g is None else g for x, g in zip(inputs, found, strict=True)]


def gradients(program, cotangents=None, arrays=None):
    """Return ∇ as arrays, at the program's own leaves or at other ``arrays``."""
    leaves = None
    if arrays is not None:
        pairs = zip(program.leaves, arrays, strict=True)
        leaves = [mg.from_numpy(np.array(a)).requires_grad_(leaf.wanted) for leaf, a in pairs]
    return [g.numpy() for g in pull(program, cotangents, leaves)]


def size_of(program):
    """Return Σ |c · y| + 1: the size of the numbers whose sum is differenced, of which rounding is a share."""
    outputs, _ = program.prepare()(program.arrays())
    return 1 + sum(float(np.sum(np.abs(c * y))) for c, y in zip(program.cotangents, outputs, strict=True))


def largest(arrays):
    """Return the largest absolute value in several arrays."""
    return max((float(np.max(np.abs(a), initial=0)) for a in arrays), default=0.0)


def of_scalar(program):
    """Return ⟨c, f⟩ as a function of the wanted leaves: a number, to differentiate twice."""
    constants = [mg.from_numpy(a) for a in program.arrays()]

    def function(*inputs):
        leaves = list(constants)
        for i, x in zip(program.wanted, inputs, strict=True):
            leaves[i] = x
        return sum(
            (mg.from_numpy(c) * y).sum() for c, y in zip(program.cotangents, program.run(leaves), strict=True)
        )

    return function, wanted(program, constants)


# --- values ---------------------------------------------------------------------------------------


@MANY
@given(programs())
def test_values_are_numpys(program):
    """y = f(x) in plain NumPy: each line's meaning, written down without minigrad, gives the same numbers."""
    expected, _ = program.prepare()(program.arrays())
    for y, e in zip(program.run(leaves_of(program)), expected, strict=True):
        assert y.dtype == np.float64
        assert_close(y.detach().numpy(), e, rtol=1e-13, floor=1e-13, what="value")
    COUNT["values"] += 1


# --- gradients ------------------------------------------------------------------------------------


@SOME
@given(programs())
def test_gradients_are_differences(program):
    """∂⟨c, f⟩/∂xᵢ equals the four-point difference D(h) of NumPy's values, element by element.

        D(h) = (8 (F(x+h) − F(x−h)) − (F(x+2h) − F(x−2h))) / 12h,      F = ⟨c, f⟩

    D(h) is wrong by a multiple of h⁴ (what the four points leave out) and by rounding, a multiple of ε|F|/h.  So
    D(h) − D(h/2) is 15/16 of the first error of D(h), that is fifteen times that of D(h/2), which is compared:
    |∇ − D(h/2)| may be as large as that difference, or 10⁻⁸ of the largest entry, or 10⁻¹⁰ of the terms of F.
    Where a comparison in the program goes another way at one of the points, there is no derivative to difference.
    """
    evaluate = program.prepare()
    arrays = [np.array(a) for a in program.arrays()]
    _, trace = evaluate([a.copy() for a in arrays])
    floor = 1e-10 * size_of(program)
    for i, gradient in zip(program.wanted, gradients(program), strict=True):
        coarse, fine = np.zeros(gradient.shape), np.zeros(gradient.shape)
        judged = np.ones(gradient.shape, bool)
        for index in np.ndindex(gradient.shape):
            for result, h in zip((coarse, fine), STEPS, strict=True):
                for factor, offset in ((8, h), (-8, -h), (-1, 2 * h), (1, -2 * h)):
                    moved = [a.copy() for a in arrays]
                    moved[i][index] += offset
                    values, there = evaluate(moved)
                    judged[index] &= there == trace
                    pairs = zip(program.cotangents, values, strict=True)
                    result[index] += factor * sum(float(np.sum(c * y)) for c, y in pairs) / (12 * h)
        scale = largest([fine[judged]])
        disagreement = np.where(judged, np.abs(coarse - fine), 0)
        assert largest([disagreement]) <= 1e-5 * scale + 10 * floor, "differences too rough to judge anything"
        error = np.where(judged, np.abs(gradient - fine), 0)
        wrong = error > np.maximum(1e-8 * scale, disagreement) + floor
        assert not wrong.any(), f"{program.leaves[i].name}: {gradient.tolist()}, not {fine.tolist()}"
        COUNT["(entries beyond a kink, not judged)"] += int(np.sum(~judged))
    COUNT["differences"] += 1


@MANY
@given(programs().filter(lambda program: program.analytic))
def test_gradients_are_complex_steps(program):
    """∂F/∂xᵢ = Im F(x + i h eᵢ) / h with h = 10⁻²⁰, to 10⁻¹⁰: no difference is taken, so nothing cancels.

    For analytic F, F(x + ih) = F(x) + ih F′(x) − h² F″(x)/2 − …, and h² is 10⁻⁴⁰.  Off its kinks a piecewise
    analytic function is analytic.  (Squire and Trapp 1998, "Using complex variables to estimate derivatives".)
    """
    h = 1e-20
    evaluate = program.prepare()
    arrays = [np.array(a, complex) for a in program.arrays()]
    for i, gradient in zip(program.wanted, gradients(program), strict=True):
        expected = np.zeros(gradient.shape)
        for index in np.ndindex(gradient.shape):
            moved = [a.copy() for a in arrays]
            moved[i][index] += 1j * h
            values, _ = evaluate(moved, complex)
            pairs = zip(program.cotangents, values, strict=True)
            expected[index] = sum(float(np.sum(c * np.imag(y))) for c, y in pairs) / h
        assert_close(gradient, expected, rtol=1e-10, floor=1e-13 * size_of(program))
    COUNT["complex steps"] += 1


@MANY
@given(programs(), generators())
def test_forward_and_reverse_are_adjoint(program, rng):
    """⟨J u, w⟩ = ⟨u, Jᵀ w⟩ for any tangents u and cotangents w, to 10⁻¹².

    J u is ``jvp``, which differentiates the rules; Jᵀ w is ``vjp``, which only runs them.
    """
    constants = [mg.from_numpy(a) for a in program.arrays()]

    def function(*inputs):
        leaves = list(constants)
        for i, x in zip(program.wanted, inputs, strict=True):
            leaves[i] = x
        return tuple(program.run(leaves))

    inputs = wanted(program, constants)
    tangents = [numbers(rng, x.shape) for x in inputs]
    _, pushed = mg.func.jvp(function, inputs, [mg.from_numpy(u) for u in tangents])
    _, back = mg.func.vjp(function, *inputs)
    pulled = back(tuple(mg.from_numpy(c) for c in program.cotangents))
    left = [c * p.numpy() for c, p in zip(program.cotangents, pushed, strict=True)]
    right = [u * g.numpy() for u, g in zip(tangents, pulled, strict=True)]
    terms = 1 + sum(float(np.sum(np.abs(a))) for a in (*left, *right))
    assert abs(sum(map(np.sum, left)) - sum(map(np.sum, right))) <= 1e-12 * terms
    for g, fast in zip(pulled, gradients(program), strict=True):
        assert_close(g.numpy(), fast, rtol=1e-12, floor=1e-12)
    COUNT["adjoint identity"] += 1


@MANY
@given(programs(), generators())
def test_gradients_are_linear_in_the_cotangent(program, rng):
    """Jᵀ0 is 0 to the bit, Jᵀ(2c) twice Jᵀc to the bit, and Jᵀ(c + d) = Jᵀc + Jᵀd up to rounding."""
    c = program.cotangents
    d = [numbers(rng, a.shape) for a in c]
    first, second = gradients(program), gradients(program, d)
    for g in gradients(program, [0 * a for a in c]):
        assert not g.any()
    for g, twice in zip(first, gradients(program, [2 * a for a in c]), strict=True):
        np.testing.assert_array_equal(twice, 2 * g)
    together = gradients(program, [a + b for a, b in zip(c, d, strict=True)])
    for g, a, b in zip(together, first, second, strict=True):
        assert_close(g, a + b, rtol=1e-12, floor=1e-12 * (1 + largest([a, b])))
    COUNT["linearity"] += 1


# --- second order ---------------------------------------------------------------------------------


@MANY
@given(programs(max_steps=8), generators())
def test_the_hessian_is_symmetric(program, rng):
    """⟨H u, v⟩ = ⟨H v, u⟩ for any u and v, to 10⁻¹¹: second derivatives may be taken in either order."""
    function, inputs = of_scalar(program)
    u, v = ([numbers(rng, x.shape) for x in inputs] for _ in range(2))
    products = []
    for along, against in ((u, v), (v, u)):
        _, found = mg.func.hvp(function, inputs, [mg.from_numpy(a) for a in along])
        products.append([a * g.numpy() for a, g in zip(against, found, strict=True)])
    terms = 1 + sum(float(np.sum(np.abs(a))) for side in products for a in side)
    assert abs(sum(map(np.sum, products[0])) - sum(map(np.sum, products[1]))) <= 1e-11 * terms
    COUNT["Hessian symmetry"] += 1


@MANY
@given(programs(max_steps=8), generators())
def test_hessian_products_are_differences_of_gradients(program, rng):
    """H u = d/dt ∇F(x + t u), by the same two stencils: the second derivative needs the first one only."""
    function, inputs = of_scalar(program)
    tangents = [numbers(rng, x.shape) for x in inputs]
    evaluate = program.prepare()
    arrays = [np.array(a) for a in program.arrays()]
    _, trace = evaluate([a.copy() for a in arrays])
    results = []
    for h in STEPS:
        total = [np.zeros(x.shape) for x in inputs]
        for factor, t in ((8, h), (-8, -h), (-1, 2 * h), (1, -2 * h)):
            moved = [a.copy() for a in arrays]
            for i, u in zip(program.wanted, tangents, strict=True):
                moved[i] = moved[i] + t * u
            if evaluate([a.copy() for a in moved])[1] != trace:
                COUNT["(Hessians beyond a kink, not judged)"] += 1
                return
            for result, g in zip(total, gradients(program, arrays=moved), strict=True):
                result += factor * g / (12 * h)
        results.append(total)
    _, found = mg.func.hvp(function, inputs, [mg.from_numpy(u) for u in tangents])
    floor = 1e-10 * (1 + largest(gradients(program)))
    for actual, coarse, fine in zip(found, *results, strict=True):
        disagreement = largest([coarse - fine])
        assert disagreement <= 1e-4 * largest([fine]) + 10 * floor, "differences too rough to judge anything"
        assert_close(actual.numpy(), fine, rtol=1e-8, floor=disagreement + floor, what="Hessian product")
    COUNT["Hessian products"] += 1


@MANY
@given(programs())
def test_rules_on_tensors_are_rules_on_arrays(program):
    """With ``create_graph=True`` the rules run on Tensors (kernels as their composed forms): the same ∇."""
    fast = gradients(program)
    for g, plain in zip(pull(program, create_graph=True), fast, strict=True):
        assert_close(g.detach().numpy(), plain, rtol=1e-12, floor=1e-13 * size_of(program))
    COUNT["create_graph"] += 1


# --- duties ---------------------------------------------------------------------------------------


@MANY
@given(programs(), generators())
def test_the_order_of_independent_steps_does_not_matter(program, rng):
    """Any order of the lines that computes the same has the same ∇: sums in another order, hence 10⁻¹²."""
    other = another_order(program, rng)
    for a, b in zip(gradients(other), gradients(program), strict=True):
        assert_close(a, b, rtol=1e-12, floor=1e-13 * size_of(program))
    COUNT["order of steps"] += 1


@MANY
@given(programs())
def test_gradients_are_repeatable_owned_and_of_their_tensors_kind(program):
    """Two runs agree to the bit; each gradient has its tensor's shape and dtype and memory of its own.

    And nothing is changed: not the leaves, not the outputs, not the cotangents.
    """
    leaves = leaves_of(program)
    outputs = program.run(leaves)
    arrays = [*(x.detach().numpy() for x in leaves), *(y.detach().numpy() for y in outputs), *program.cotangents]
    before = [a.copy() for a in arrays]
    used = [(y, mg.from_numpy(c)) for y, c in zip(outputs, program.cotangents, strict=True) if y.requires_grad]
    for y, c in used:
        y.backward(c, retain_graph=True)
    summed = [x.grad for x in wanted(program, leaves)]
    found = [g.numpy() for g in pull(program)]
    again = [g.numpy() for g in pull(program)]
    for a, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a, old)
    for x, g, g2, s in zip(wanted(program, leaves), found, again, summed, strict=True):
        assert g.shape == g2.shape == x.shape
        assert g.dtype == np.float64
        assert g.tobytes() == g2.tobytes()
        assert_close(np.zeros(x.shape) if s is None else s.numpy(), g, rtol=1e-12, floor=1e-13 * size_of(program))
    everything = [*arrays, *found, *(s.numpy() for s in summed if s is not None)]
    for i, g in enumerate(everything):
        if i >= len(arrays):
            assert g.flags.writeable
            assert not any(np.shares_memory(g, other) for other in everything[:i])
    COUNT["repeatable, owned"] += 1


@MANY
@given(programs(), generators())
def test_programs_on_mixed_dtypes(program, rng):
    """With some leaves in float32, at the same numbers rounded, ∇ is the same up to float32's precision.

    Each gradient has its leaf's dtype, whatever it met on the way; with ``create_graph`` as well.
    """
    one_dtype = any(name in program.code() for name in ("scatter", "index_add"))  # these take no others
    short = [one_dtype or rng.random() < 0.7 for _ in program.leaves]
    rounded = [a.astype(np.float32) for a in program.arrays()]
    mixed = [a if s else a.astype(np.float64) for a, s in zip(rounded, short, strict=True)]
    leaves = [mg.from_numpy(a).requires_grad_(leaf.wanted) for a, leaf in zip(mixed, program.leaves, strict=True)]
    outputs = program.run(leaves)
    cotangents = [mg.from_numpy(c.astype(y.dtype)) for c, y in zip(program.cotangents, outputs, strict=True)]
    expected = gradients(program, arrays=[a.astype(np.float64) for a in rounded])
    for options in ({}, {"create_graph": True}):
        found = pull(program, cotangents, leaves, **options)
        for x, g, e in zip(wanted(program, leaves), found, expected, strict=True):
            if g.any():  # else it may stand for one that is not there
                assert g.dtype == x.dtype
            assert_close(g.detach().numpy().astype(np.float64), e, rtol=1e-3, floor=1e-4 * size_of(program))
    COUNT["mixed dtypes"] += 1


def holding(nodes):
    """Return the nodes at and below these that have not let go of what they saved."""
    pending, seen = list(nodes), set()
    while pending:
        node = pending.pop()
        if isinstance(node, Node) and node not in seen:
            seen.add(node)
            pending.extend(node.parents)
    return [node for node in seen if node.output is None and node.saved is not None]


@MANY
@given(programs())
def test_nothing_outlives_a_program(program):
    """What a walk has passed is freed though the outputs are still there; the rest goes with them, uncollected.

    Each node below the outputs has let go of what it saved.  Then the last references are dropped, with the
    collector off, and it finds nothing afterwards: there are no cycles, walked or not, recorded or not.
    """
    gc.disable()
    gc.freeze()  # what was there before is not looked at
    try:
        outputs = program.run(leaves_of(program))
        for y, c in zip(outputs, program.cotangents, strict=True):
            if y.requires_grad:
                y.backward(mg.from_numpy(c), retain_graph=True)
        used = [(y, mg.from_numpy(c)) for y, c in zip(outputs, program.cotangents, strict=True) if y.requires_grad]
        mg.autograd.backward([y for y, _ in used], [c for _, c in used])
        assert not holding([y.grad_fn for y in outputs])
        del outputs, used
        assert gc.collect() == 0
        for options in ({}, {"create_graph": True}):
            pull(program, **options)
            assert gc.collect() == 0
        program.run(leaves_of(program))
        assert gc.collect() == 0
    finally:
        gc.unfreeze()
        gc.enable()
    COUNT["freed"] += 1


@SOME
@given(programs())
def test_a_program_prints_as_a_script_that_computes_the_same(program):
    """What a failure prints can be pasted and run: it gives the same gradients, and differences beside them."""
    names = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(program.source(), names)
    assert printed.getvalue().count("gradient:") == len(program.wanted)
    for i, g in zip(program.wanted, gradients(program), strict=True):
        assert names["gradients"][program.leaves[i].name].tobytes() == g.tobytes()
        assert names["differences"][program.leaves[i].name].shape == g.shape
    COUNT["as scripts"] += 1


def test_programs_reach_the_registry():
    """Enough is drawn: every kind of step occurs, and every operation that can be differentiated.

    But for helpers of rules, which a first-order program does not call, and for steps that have no derivative
    of interest: ``round`` and ``trunc`` are ``floor`` again, ``cast`` is for other dtypes.
    """
    reached: Counter[str] = Counter()
    originals = {name: operation.forward for name, operation in mg.op.registry.items()}

    def counting(name, forward):
        def counted(*args, **kwargs):
            reached[name] += 1
            return forward(*args, **kwargs)

        return counted

    differentiable = {
        name
        for name, operation in mg.op.registry.items()
        if (operation.rules or operation.joint) and originals[name].__module__.startswith("minigrad")
    }
    wanted = differentiable - {"recurrence", "place", "identity", "cast", "round", "trunc"}

    def run(program):
        program.run(leaves_of(program))

    try:
        for name, forward in originals.items():
            mg.op.registry[name].forward = counting(name, forward)
        for number in range(40):  # what is drawn depends on the modules loaded: more, if the rarest did not occur
            seed(number)(settings(max_examples=100)(given(programs())(run)))()
            if wanted <= reached.keys():
                break
    finally:
        for name, forward in originals.items():
            mg.op.registry[name].forward = forward
    assert wanted <= reached.keys(), f"never drawn: {sorted(wanted - reached.keys())}"


def test_a_program_is_drawn_with_what_it_promises():
    """A program by hand, as one is drawn: a diamond, a view, a write through it, a dead branch."""
    lines = [
        ("v0 = mg.tanh(x0)", "v0 = np.asarray(np.tanh(x0))", ("x0",), ("v0",)),
        ("v1 = v0 * v0", "v1 = np.asarray(v0 * v0)", ("v0",), ("v1",)),
        ("v2 = v1.clone()", "v2 = np.array(v1)", ("v1",), ("v2",)),
        ("v3 = v2[1:]", "v3 = v2[1:]", ("v2",), ("v3",)),
        ("v3 *= x1", "v3[...] = v3 * x1", ("v3", "x1"), ()),
        ("v4 = mg.exp(v0)", "v4 = np.exp(v0)", ("v0",), ("v4",)),
    ]
    steps = [Step(mine, numpy, reads, defines, (), (), True) for mine, numpy, reads, defines in lines]
    leaves = [Leaf("x0", "np.array([0.5, -0.25, 1.0])", True), Leaf("x1", "np.array(2.0)", True)]
    program = Program(leaves, steps, ["v2"], [np.array([1.0, -1.0, 0.5])])
    t = np.tanh([0.5, -0.25, 1.0])
    slope = 2 * t * (1 - t * t)
    first, second = gradients(program)
    np.testing.assert_allclose(first, slope * [1.0, -2.0, 1.0], rtol=1e-14)
    np.testing.assert_allclose(second, -(t[1] ** 2) + 0.5 * t[2] ** 2, rtol=1e-14)
