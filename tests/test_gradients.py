"""Every operation's derivative, of first and second order, against differences of its values.

An operation y = f(x₁, …, xₙ) is right if for every cotangent g (of y's shape) the engine returns

    ∂ ⟨g, f(x)⟩ / ∂xᵢ        where ⟨g, y⟩ = Σ g · y,

and the right-hand side is a number's derivative, which differences give without any rule.  ``CASES`` says for
each operation in the registry how to draw arguments for it; what must hold of all of them is stated once, in
the tests at the end.  An operation without a case fails the suite.

Cotangents have random entries of both signs.  With ones, or a bare ``sum()``, a rule that squares its cotangent,
drops its sign or mixes up its entries would pass.
"""

import importlib
import math
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import assert_close, differences, weighted
from strategies import (
    broadcastable,
    broadcastable_pairs,
    dims,
    distinct,
    generators,
    laid_out,
    on_grid,
    shapes,
    two_sided,
)

import minigrad as mg
from minigrad.op import Op, numpy_functions, registry
from minigrad.rules.elementwise import Elementwise

for module in pkgutil.walk_packages(mg.__path__, "minigrad."):
    importlib.import_module(module.name)  # each module registers its operations


@dataclass
class Problem:
    """A function to differentiate, and where: ``call(*tensors, *constants)`` gives one Tensor or several."""

    call: Callable[..., Any]
    arrays: Sequence[np.ndarray]  # float64; the inputs to differentiate with respect to, in whatever layout
    constants: Sequence[np.ndarray] = ()  # float arrays of which no gradient is asked

    def outputs(self, inputs, dtype=np.float64):
        """Return all outputs for ``inputs`` (Tensors), as a list."""
        out = self.call(*inputs, *tensors([c.astype(dtype, copy=False) for c in self.constants]))
        return list(out) if isinstance(out, tuple) else [out]

    def values(self, arrays):
        """Return the arrays of all outputs for ``arrays``, with nothing recorded."""
        return [out.detach().numpy() for out in self.outputs(tensors(arrays))]


def tensors(arrays):
    """Return Tensors of the same memory as ``arrays``."""
    return [mg.from_numpy(np.asarray(array)) for array in arrays]


def leaves(arrays):
    """Return Tensors of the same memory as ``arrays``, whose gradients are wanted."""
    return [mg.from_numpy(np.asarray(array)).requires_grad_() for array in arrays]


def gradients(problem, arrays, cotangents, create_graph=False):
    """Return ∂⟨cotangents, outputs⟩/∂arrays as the engine computes it."""
    inputs = leaves(arrays)
    found = mg.autograd.grad(problem.outputs(inputs), inputs, cotangents, create_graph=create_graph)
    return [g.detach().numpy() for g in found]


# --- how to draw arguments ------------------------------------------------------------------------


def positive(rng, shape):
    """Return numbers in [1/4, 2]."""
    return np.abs(two_sided(rng, shape))


def inside_one(rng, shape):
    """Return numbers of both signs in [−0.85, 0.85], where arc sine and arc cosine are smooth."""
    return two_sided(rng, shape, 0.1, 0.85)


def some_zeros(rng, shape):
    """Return numbers of both signs, about a third of them exactly 0: a product must not divide by its factors."""
    return two_sided(rng, shape) * (rng.random(shape) < 0.65)


def between_integers(rng, shape):
    """Return numbers at least 1/10 away from any integer and any half, where rounding jumps."""
    return rng.integers(-3, 3, shape) + rng.choice([0.0, 0.5], shape) + rng.uniform(0.1, 0.4, shape)


@st.composite
def unary(draw, *forms, numbers=two_sided, repeat=True):
    """y = f(x), in one of its spellings."""
    x = numbers(draw(generators()), draw(shapes()))
    return Problem(draw(st.sampled_from(forms)), [draw(laid_out(x, repeat=repeat))])


SCALARS = (2, -1.5, np.float64(0.75), np.array(1.25))


@st.composite
def binary(draw, *forms, numbers=(two_sided, two_sided), scalars=SCALARS):
    """y = f(x₁, x₂) of two tensors, of a tensor and an array, or of a tensor and a number on either side."""
    form = draw(st.sampled_from(forms))
    rng = draw(generators())
    x_shape, y_shape = draw(broadcastable_pairs())
    x, y = draw(laid_out(numbers[0](rng, x_shape))), draw(laid_out(numbers[1](rng, y_shape)))
    match draw(st.sampled_from(["both", "both", "same", "number right", "number left", "array"])):
        case "both":
            return Problem(form, [x, y])
        case "same" if numbers[0] is numbers[1] and numbers[0] is not on_grid:
            return Problem(lambda x: form(x, x), [x])
        case "number right":
            number = draw(st.sampled_from(scalars))
            return Problem(lambda x: form(x, number), [x])
        case "number left":
            number = draw(st.sampled_from(scalars))
            reverse = draw(st.sampled_from([f for f in forms if getattr(f, "__name__", "") != "method"]))
            return Problem(lambda y: reverse(number, y), [y])
        case _:
            return Problem(form, [x], [y])


def method(function):
    """Mark a spelling whose first operand must be a Tensor: x.add(y)."""
    function.__name__ = "method"
    return function


@st.composite
def powers(draw):
    """xʸ: positive bases with any exponent, and bases of both signs with constant whole exponents."""
    form = draw(st.sampled_from([lambda x, y: x**y, mg.pow, np.power]))
    rng = draw(generators())
    x_shape, y_shape = draw(broadcastable_pairs())
    match draw(st.sampled_from(["both", "number", "whole", "array of whole", "base"])):
        case "both":
            return Problem(form, [positive(rng, x_shape), two_sided(rng, y_shape)])
        case "number":
            y = draw(st.sampled_from([0.5, -1.5, np.float64(2.5)]))
            return Problem(lambda x: form(x, y), [draw(laid_out(positive(rng, x_shape)))])
        case "whole":
            y = draw(st.sampled_from([-2, -1, 0, 1, 2, 3, 2.0]))
            return Problem(lambda x: form(x, y), [draw(laid_out(two_sided(rng, x_shape)))])
        case "array of whole":
            y = rng.integers(-2, 4, y_shape).astype(float)
            return Problem(form, [draw(laid_out(two_sided(rng, x_shape)))], [y])
        case _:
            return Problem(lambda y: form(1.75, y), [draw(laid_out(two_sided(rng, y_shape)))])


@st.composite
def clamps(draw):
    """x limited to bounds that are numbers, tensors or missing; none within 1/16 of an element of x."""
    rng = draw(generators())
    shape = draw(shapes(max_size=12))
    x = draw(laid_out(on_grid(rng, shape)))
    low = on_grid(rng, draw(broadcastable(shape)), 1 / 8)
    high = on_grid(rng, draw(broadcastable(shape)), 1 / 16)
    return draw(
        st.sampled_from(
            [
                Problem(lambda x: x.clamp(-0.375, 0.625), [x]),
                Problem(lambda x: x.clamp(min=0.125), [x]),
                Problem(lambda x: np.clip(x, None, -0.375), [x]),
                Problem(lambda x: mg.clamp(x, max=0.125), [x]),
                Problem(lambda x, low, high: mg.clamp(x, low, high), [x, low, high]),
                Problem(lambda x, low: x.clamp(low, 0.4375), [x, low]),
                Problem(lambda x, high: x.clamp(-0.375, high), [x, high]),
                Problem(lambda x, low: x.clamp(min=low), [x, low]),
                Problem(lambda x, high: x.clamp(max=high), [x, high]),
            ]
        )
    )


@st.composite
def choices(draw):
    """where(condition, x, y), the three of different shapes, with a number in either place."""
    rng = draw(generators())
    x_shape, y_shape = draw(broadcastable_pairs())
    x, y = draw(laid_out(two_sided(rng, x_shape))), draw(laid_out(two_sided(rng, y_shape)))
    condition = np.asarray(rng.random(draw(broadcastable(np.broadcast_shapes(x_shape, y_shape)))) < 0.5)
    if draw(st.booleans()):
        condition = mg.from_numpy(condition)
    wide = mg.from_numpy(rng.random((3, *x_shape)) < 0.5)
    return draw(
        st.sampled_from(
            [
                Problem(lambda x, y: mg.where(condition, x, y), [x, y]),
                Problem(lambda x, y: np.where(condition, x, y), [x, y]),
                Problem(lambda x, y: x.where(condition, y), [x, y]),
                Problem(lambda x: mg.where(wide, x, 0), [x]),
                Problem(lambda x: mg.where(wide, -0.5, x), [x]),
            ]
        )
    )


@st.composite
def fills(draw):
    """masked_fill with a number, or with a 0-d tensor that is differentiated too."""
    rng = draw(generators())
    shape = draw(shapes(max_size=12))
    x = draw(laid_out(two_sided(rng, shape)))
    mask = mg.from_numpy(np.asarray(rng.random(draw(broadcastable(shape))) < 0.5))
    if draw(st.booleans()):
        return Problem(lambda x: x.masked_fill(mask, -1.5), [x])
    return Problem(lambda x, value: mg.masked_fill(x, mask, value), [x, two_sided(rng, ())])


@st.composite
def remainders(draw):
    """x mod y with x/y at least 1/5 away from any integer, where the remainder jumps."""
    rng = draw(generators())
    shape = draw(shapes(max_size=12))
    y = rng.uniform(1, 1.5, draw(broadcastable(shape))) * rng.choice([-1.0, 1.0])
    x = y * (rng.integers(-3, 3, shape) + rng.uniform(0.2, 0.8, shape))
    return draw(
        st.sampled_from(
            [
                Problem(lambda x, y: x % y, [draw(laid_out(x, repeat=False)), y]),
                Problem(np.remainder, [x, y]),
                Problem(lambda x: x % 1.25, [1.25 * (np.floor(x) + rng.uniform(0.2, 0.8, shape))]),
                Problem(lambda y: 7.3 % y, [rng.uniform(2.5, 3.5, shape)]),
            ]
        )
    )


@st.composite
def reductions(draw, *forms, numbers=two_sided, repeat=True, count=1, none=True, several=True, min_dims=0):
    """y = f(x, dim, keepdim) over at least ``count`` elements for each result."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=min_dims))
    dim = draw(dims(len(shape), none=none, several=several))
    if count:
        over = range(len(shape)) if dim is None else [dim] if isinstance(dim, int) else dim
        assume(math.prod(shape[d] for d in over) >= count and 0 not in shape)
    keepdim = draw(st.booleans())
    form = draw(st.sampled_from(forms))
    return Problem(lambda x: form(x, dim, keepdim), [draw(laid_out(numbers(rng, shape), repeat=repeat))])


@st.composite
def spreads(draw, name):
    """var and std, with every divisor n − correction above 0, in PyTorch's and NumPy's spelling."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=1))
    dim = draw(dims(len(shape)))
    over = range(len(shape)) if dim is None else [dim] if isinstance(dim, int) else dim
    assume(math.prod(shape[d] for d in over) >= 2 and 0 not in shape)
    keepdim = draw(st.booleans())
    correction = draw(st.sampled_from([0, 1, 0.5]))
    axis = tuple(dim) if isinstance(dim, list) else dim
    form = draw(
        st.sampled_from(
            [
                lambda x: getattr(x, name)(dim, correction=correction, keepdim=keepdim),
                lambda x: getattr(mg, name)(x, dim, unbiased=False, keepdim=keepdim),
                lambda x: getattr(np, name)(x, axis=axis, ddof=correction, keepdims=keepdim),
                lambda x: getattr(x, name)(),
            ]
        )
    )
    # Spread out: among numbers that almost coincide, a deviation keeps few of their digits.
    return Problem(form, [draw(laid_out(distinct(rng, shape, 1 / 16), repeat=False))])


@st.composite
def norms(draw):
    """The p-norms; numbers of different absolute values, so that the largest is one."""
    rng = draw(generators())
    shape = draw(shapes())
    assume(0 not in shape)
    dim = draw(dims(len(shape)))
    p = draw(st.sampled_from([1, 2, 3, 1.5, math.inf, "fro"]))
    keepdim = draw(st.booleans())
    form = draw(st.sampled_from([lambda x: x.norm(p, dim, keepdim), lambda x: mg.norm(x, p, dim, keepdim)]))
    return Problem(form, [draw(laid_out(distinct(rng, shape, 1 / 16), repeat=False))])


@st.composite
def along_a_dim(draw, *forms, numbers=two_sided, min_dims=0):
    """y = f(x, dim) for one dimension (0 or −1 of a 0-d tensor)."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=min_dims))
    n = max(len(shape), 1)
    dim = draw(st.integers(-n, n - 1))
    form = draw(st.sampled_from(forms))
    return Problem(lambda x: form(x, dim), [draw(laid_out(numbers(rng, shape)))])


@st.composite
def extremes(draw, name):
    """max and min: of all, over one dimension (the values), or of two tensors."""
    rng = draw(generators())
    shape = draw(shapes())
    assume(0 not in shape)
    x = draw(laid_out(distinct(rng, shape), repeat=False))
    other = on_grid(rng, draw(broadcastable(shape)), 1 / 8)
    dim = draw(dims(len(shape), several=False))
    if dim is None:
        return draw(
            st.sampled_from(
                [
                    Problem(lambda x: getattr(x, name)(), [x]),
                    Problem(lambda x, y: getattr(mg, name)(x, y), [on_grid(rng, shape), other]),
                ]
            )
        )
    keepdim = draw(st.booleans())
    return Problem(lambda x: getattr(x, name)(dim, keepdim=keepdim).values, [x])


MATMUL_SHAPES = [
    ((3,), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((2, 3), (3, 2)),
    ((3,), (2, 3, 2)),
    ((2, 2, 3), (3,)),
    ((2, 1, 3), (3, 2)),
    ((2, 3), (2, 3, 1)),
    ((2, 2, 3), (2, 3, 2)),
    ((1, 2, 3), (2, 3, 1)),
    ((2, 1, 2, 2), (1, 2, 2, 2)),
    ((2, 2, 1, 2), (2, 2, 2)),
    ((1,), (1, 1)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
    ((2, 2, 0), (0, 3)),
    ((0, 2, 3), (3, 1)),
    ((2, 3), (3, 0)),
    ((0,), (0,)),
]


@st.composite
def products(draw, *forms, pairs=MATMUL_SHAPES):
    """Matrix products of every rank, with batches that broadcast and sizes of 0."""
    rng = draw(generators())
    x_shape, y_shape = draw(st.sampled_from(pairs))
    x, y = draw(laid_out(two_sided(rng, x_shape))), draw(laid_out(two_sided(rng, y_shape)))
    form = draw(st.sampled_from(forms))
    match draw(st.sampled_from(["both", "both", "x", "y"])):
        case "both":
            return Problem(form, [x, y])
        case "x":
            return Problem(form, [x], [y])
        case _:
            return Problem(lambda y, x: form(x, y), [y], [x])


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 2)),
    ("ij,jk", (2, 3), (3, 2)),  # no output: the labels that occur once
    ("ba,cb", (2, 3), (2, 2)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ii->", (3, 3)),
    ("iij->ji", (2, 2, 3)),
    ("iii->i", (2, 2, 2)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    ("ij->ji", (2, 3)),
    ("i->i", (3,)),
    ("...ij,...jk->...ik", (2, 2, 3), (2, 3, 2)),
    ("...ij,...jk->...ik", (2, 1, 1, 2), (2, 2, 1)),
    ("...i,...i", (2, 3), (3,)),
    ("...i->...", (2, 3)),
    ("i...,i->...", (2, 3), (2,)),
    ("bhtd,bhsd->bhts", (1, 2, 2, 2), (1, 2, 3, 2)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("ij,jk,kl->il", (2, 2), (2, 3), (3, 2)),
    ("ij,j,i->", (2, 3), (3,), (2,)),
    ("i,j->ij", (2,), (3,)),
    ("i,j->", (2,), (3,)),
    ("ii,i->i", (3, 3), (3,)),
    ("i,i->", (3,), (1,)),  # sizes of 1 broadcast
    ("ij,ij->i", (2, 1), (2, 3)),
    ("ij,jk->ik", (2, 1), (3, 2)),
    (",i->i", (), (3,)),
    (" i j , j -> i ", (2, 3), (3,)),
    ("ij,jk->ik", (2, 0), (0, 3)),
    ("Ab,bA->A", (2, 3), (3, 2)),
]


@st.composite
def einsums(draw):
    """The equations above, also in NumPy's name and with the operands in a list."""
    rng = draw(generators())
    equation, *operand_shapes = draw(st.sampled_from(EINSUMS))
    arrays = [draw(laid_out(two_sided(rng, shape))) for shape in operand_shapes]
    form = draw(st.sampled_from([mg.einsum, np.einsum, lambda equation, *xs: mg.einsum(equation, list(xs))]))
    return Problem(lambda *xs: form(equation, *xs), arrays)


@st.composite
def reshapes(draw):
    """Other shapes for the same elements: flat, reversed, with ones, with −1."""
    rng = draw(generators())
    shape = draw(shapes())
    x = draw(laid_out(two_sided(rng, shape)))
    target = draw(st.sampled_from([(-1,), shape[::-1], (1, *shape, 1), shape, (math.prod(shape),)]))
    assume(0 not in shape or -1 not in target)
    forms = [lambda x: x.reshape(target), lambda x: x.reshape(*target), lambda x: np.reshape(x, target)]
    forms.append(lambda x: x.contiguous().view(target))
    forms.append(lambda x: x.flatten())
    return Problem(draw(st.sampled_from(forms)), [x])


@st.composite
def permutations(draw):
    """Dimensions in any order, each counted from either end."""
    rng = draw(generators())
    shape = draw(shapes())
    order = draw(st.permutations(range(len(shape))))
    signed = tuple(d - len(shape) if draw(st.booleans()) else d for d in order)
    forms = [lambda x: x.permute(*signed), lambda x: x.permute(signed), lambda x: np.transpose(x, signed)]
    forms += [lambda x: x.T, lambda x: mg.permute(x, signed), np.transpose]
    return Problem(draw(st.sampled_from(forms)), [draw(laid_out(two_sided(rng, shape)))])


@st.composite
def transpositions(draw):
    """Two dimensions exchanged."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=2))
    i, j = draw(st.integers(-len(shape), len(shape) - 1)), draw(st.integers(-len(shape), len(shape) - 1))
    forms = [lambda x: x.transpose(i, j), lambda x: np.swapaxes(x, i, j), lambda x: x.mT]
    return Problem(draw(st.sampled_from(forms)), [draw(laid_out(two_sided(rng, shape)))])


@st.composite
def expansions(draw):
    """A shape stretched to a larger one, with −1 for sizes to keep."""
    rng = draw(generators())
    shape = draw(shapes(max_size=12))
    small = draw(broadcastable(shape))
    extra = len(shape) - len(small)
    target = tuple(
        -1 if i >= extra and small[i - extra] == n and draw(st.booleans()) else n for i, n in enumerate(shape)
    )
    forms = [lambda x: x.expand(target), lambda x: x.expand(*target), lambda x: np.broadcast_to(x, shape)]
    return Problem(draw(st.sampled_from(forms)), [draw(laid_out(two_sided(rng, small)))])


@st.composite
def unsqueezes(draw):
    """A dimension of size 1 inserted anywhere."""
    rng = draw(generators())
    shape = draw(shapes(max_dims=3))
    dim = draw(st.integers(-len(shape) - 1, len(shape)))
    forms = [lambda x: x.unsqueeze(dim), lambda x: np.expand_dims(x, dim), lambda x: x[..., None]]
    return Problem(draw(st.sampled_from(forms)), [draw(laid_out(two_sided(rng, shape)))])


@st.composite
def flips(draw):
    """Elements in reverse order along any dimensions."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=1))
    dim = draw(dims(len(shape), none=False))
    along = (dim,) if isinstance(dim, int) else tuple(dim)
    forms = [lambda x: x.flip(*along), lambda x: x.flip(along), lambda x: mg.flip(x, along), np.flip]
    return Problem(draw(st.sampled_from(forms)), [draw(laid_out(two_sided(rng, shape)))])


@st.composite
def rolls(draw):
    """Elements moved around along one dimension, two, or the flattened tensor."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=2))
    shift = draw(st.integers(-4, 4))
    forms = [lambda x: x.roll(shift, 0), lambda x: x.roll((shift, 1), (0, -1)), lambda x: mg.roll(x, shift)]
    return Problem(draw(st.sampled_from(forms)), [draw(laid_out(two_sided(rng, shape)))])


@st.composite
def triangles(draw, name):
    """The lower or upper triangle of the last two dimensions, about any diagonal."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=2))
    diagonal = draw(st.integers(-3, 3))
    forms = [
        lambda x: getattr(x, name)(diagonal),
        lambda x: getattr(mg, name)(x, diagonal=diagonal),
        getattr(np, name),
    ]
    return Problem(draw(st.sampled_from(forms)), [draw(laid_out(two_sided(rng, shape)))])


@st.composite
def repetitions(draw):
    """Copies side by side, with more numbers than dimensions, and none at all."""
    rng = draw(generators())
    shape = draw(shapes(max_dims=2, max_size=6))
    n = len(shape) + draw(st.integers(0, 1))
    times = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 0]), min_size=n, max_size=n)))
    forms = [lambda x: x.repeat(*times), lambda x: x.repeat(times), lambda x: np.tile(x, times)]
    return Problem(draw(st.sampled_from(forms)), [draw(laid_out(two_sided(rng, shape)))])


@st.composite
def joins(draw):
    """cat: tensors of different sizes along one dimension, one of them perhaps empty or a constant."""
    rng = draw(generators())
    shape = list(draw(shapes(min_dims=1, max_dims=3, max_size=6)))
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    arrays = []
    for size in draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)):
        shape[dim] = size
        arrays.append(draw(laid_out(two_sided(rng, tuple(shape)))))
    forms = [
        lambda *xs: mg.cat(xs, dim),
        lambda *xs: mg.cat(list(xs), dim=dim),
        lambda *xs: np.concatenate(xs, axis=dim),
        lambda *xs: mg.cat([xs[0], *xs], dim),
    ]
    if len(arrays) > 1 and draw(st.booleans()):
        return Problem(lambda x, *cs: mg.cat([*cs, x], dim), arrays[:1], arrays[1:])
    return Problem(draw(st.sampled_from(forms)), arrays)


@st.composite
def stacks(draw):
    """stack: tensors of one shape along a new dimension."""
    rng = draw(generators())
    shape = draw(shapes(max_dims=2, max_size=6))
    dim = draw(st.integers(-len(shape) - 1, len(shape)))
    arrays = [draw(laid_out(two_sided(rng, shape))) for _ in range(draw(st.integers(1, 3)))]
    forms = [lambda *xs: mg.stack(xs, dim), lambda *xs: np.stack(xs, axis=dim)]
    return Problem(draw(st.sampled_from(forms)), arrays)


@st.composite
def pieces(draw, *forms):
    """split, chunk and unbind: several outputs, of which only some are used."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=1))
    assume(0 not in shape)
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    form = draw(st.sampled_from(forms))
    size = draw(st.integers(1, 3))
    chosen = draw(st.integers(1, 7))  # a bit for each output that is used

    def call(x):
        parts = form(x, size, dim)
        used = [part for k, part in enumerate(parts) if chosen >> k & 1]
        return tuple(used or parts[:1])

    return Problem(call, [draw(laid_out(two_sided(rng, shape)))])


def sections(x, size, dim):
    """Split into a first piece of ``size`` elements, an empty one, and the rest."""
    size = min(size, x.shape[dim])
    return x.split([size, 0, x.shape[dim] - size], dim)


MASK = np.array([[True, False, True, True], [False] * 4, [True, True, False, False]])
INDICES = {
    (3, 4): [
        0,
        -1,
        np.int64(1),
        slice(1, None),
        (slice(1, None), slice(None, None, -2)),
        (Ellipsis, None),
        (None, 0, Ellipsis),
        (1, 2),
        Ellipsis,
        (slice(None), -1),
        slice(3, 3),
        [0, 0, 2],
        [],
        [-1, 2],  # the same row, by two names
        np.array([[0, 1], [1, 1]]),
        np.array([2, 2], np.uint8),
        np.array(1),
        (slice(None), [1, 1, 0]),
        ([0, 2, 0], [1, 1, 1]),
        (np.array([[0], [2]]), np.array([1, 1])),
        (slice(None, None, -1), [3, 3]),
        (None, [1, 1], slice(0, 3)),
        (Ellipsis, [0, 0]),
        ([1, 1], 2),
        MASK,
        MASK[:, 0],
        (MASK[:, 0], 1),
        (slice(None), MASK[0]),
        np.zeros((3, 4), bool),
    ],
    (5,): [
        [4, 4, 0, 4],
        -2,
        slice(None, None, 2),
        np.array([True, False, True, False, True]),
        (None, [1, 1]),
    ],
    (2, 3, 2): [([1, 1], slice(None), [0, 0]), (0, [2, 2]), (Ellipsis, 1), (slice(None), None, [0, 2, 2])],
    (): [(), Ellipsis, None],
}


@st.composite
def selections(draw):
    """x[index], with NumPy arrays, lists, Tensors, masks, slices, … and None."""
    rng = draw(generators())
    shape = draw(st.sampled_from([(3, 4)] * 6 + [(5,), (2, 3, 2), ()]))
    index = draw(st.sampled_from(INDICES[shape]))
    if isinstance(index, np.ndarray) and draw(st.booleans()):
        index = mg.from_numpy(index)
    return Problem(lambda x: x[index], [draw(laid_out(two_sided(rng, shape)))])


@st.composite
def placements(draw):
    """The rule of indexing, itself an operation: zeros with g added at an index."""
    rng = draw(generators())
    shape = draw(st.sampled_from([(3, 4), (5,), (2, 3, 2), ()]))
    index = draw(st.sampled_from(INDICES[shape]))
    index = np.array(index, int) if isinstance(index, list) else index
    g = two_sided(rng, np.empty(shape)[index].shape)
    return Problem(lambda g: registry["place"](g, index, shape), [draw(laid_out(g))])


@st.composite
def assignments(draw):
    """x[index] = value on a copy of x: a number, a tensor, or a tensor that broadcasts.  No index repeats."""
    rng = draw(generators())
    indices = [
        0,
        (1, 2),
        slice(1, None),
        (slice(None, None, -2), slice(1, 3)),
        [2, 0],
        ([0, 2], [1, 1]),
        (slice(None), [3, 0]),
        MASK,
        (MASK[:, 0], 1),
        Ellipsis,
        slice(3, 3),
    ]
    index = draw(st.sampled_from(indices))
    target = np.empty((3, 4))[index].shape
    small = draw(broadcastable(target))
    x, value = draw(laid_out(two_sided(rng, (3, 4)))), draw(laid_out(two_sided(rng, small)))

    def write(x, value):
        y = x.clone()
        y[index] = value
        return y

    def write_to_constant(value, x):
        x[index] = value  # of no gradient so far: it has one from here on
        return x

    match draw(st.sampled_from(["both", "number", "value"])):
        case "both":
            return Problem(write, [x, value])
        case "number":
            return Problem(lambda x: write(x, -0.5), [x])
        case _:
            return Problem(lambda v, x: write_to_constant(v, x.clone()), [value], [x])


@st.composite
def gathers(draw):
    """gather: any index of the same number of dimensions, whose other sizes may be smaller."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=1, max_dims=3))
    assume(0 not in shape)
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    size = [draw(st.integers(1, n)) for n in shape]
    size[dim] = draw(st.integers(0, 4))
    index = mg.from_numpy(rng.integers(0, shape[dim], size))
    form = draw(st.sampled_from([lambda x: x.gather(dim, index), lambda x: mg.gather(x, dim, index)]))
    return Problem(form, [draw(laid_out(two_sided(rng, shape)))])


@st.composite
def index_selects(draw):
    """index_select: slices in any order, some of them repeated."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=1))
    assume(0 not in shape)
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    index = mg.from_numpy(rng.integers(0, shape[dim], draw(st.integers(0, 4))))
    form = draw(st.sampled_from([lambda x: x.index_select(dim, index), lambda x: mg.index_select(x, dim, index)]))
    return Problem(form, [draw(laid_out(two_sided(rng, shape)))])


@st.composite
def scatters(draw):
    """scatter_add: x and src differentiated; positions repeat, and src may be larger than the index."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=1, max_dims=2, max_size=9))
    assume(0 not in shape)
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    size = [draw(st.integers(1, n)) for n in shape]
    size[dim] = draw(st.integers(1, 4))
    index = mg.from_numpy(rng.integers(0, shape[dim], size))
    src = two_sided(rng, [n + draw(st.integers(0, 1)) for n in size])
    x = draw(laid_out(two_sided(rng, shape)))
    return Problem(lambda x, src: x.scatter_add(dim, index, src), [x, draw(laid_out(src))])


@st.composite
def scatters_over(draw):
    """scatter: what stood at a position is written over, by src or by a number.  No position repeats."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=1, max_dims=2, max_size=9))
    assume(0 not in shape)
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    order = np.argsort(rng.random(shape), axis=dim)
    index = mg.from_numpy(order[(slice(draw(st.integers(1, shape[0]))),)])
    src = draw(laid_out(two_sided(rng, index.shape)))
    x = draw(laid_out(two_sided(rng, shape)))
    if draw(st.booleans()):
        return Problem(lambda x: x.scatter(dim, index, 0.5), [x])
    return Problem(lambda x, src: x.scatter(dim, index, src), [x, src])


@st.composite
def diagonals(draw):
    """The diagonal of any two dimensions, above, below, or beside the matrix."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=2))
    dim1, dim2 = draw(st.permutations(range(len(shape))))[:2]
    dim2 -= len(shape) * draw(st.booleans())
    offset = draw(st.integers(-2, 2))
    return Problem(lambda x: x.diagonal(offset, dim1, dim2), [draw(laid_out(two_sided(rng, shape)))])


@st.composite
def pads(draw):
    """A border of any width on either side of the last dimensions, filled with a number."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=1, max_dims=3, max_size=8))
    n = draw(st.integers(1, len(shape)))
    widths = draw(st.lists(st.integers(0, 2), min_size=2 * n, max_size=2 * n))
    value = draw(st.sampled_from([0.0, -1.5]))
    return Problem(lambda x: mg.nn.functional.pad(x, widths, value=value), [draw(laid_out(two_sided(rng, shape)))])


@st.composite
def recurrences(draw):
    """s₀ = a₀, sᵢ = aᵢ + xᵢ sᵢ₋₁, an operation that only rules use."""
    rng = draw(generators())
    shape = draw(st.sampled_from([(1,), (4,), (2, 3), (2, 1)]))
    arrays = [draw(laid_out(two_sided(rng, shape))) for _ in range(2)]
    return Problem(registry["recurrence"], arrays)


@st.composite
def takes(draw):
    """take_along_dim: an index of size 1 beside its dimension broadcasts; without a dim, of the flat tensor."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=1, max_dims=3))
    assume(0 not in shape)
    x = draw(laid_out(two_sided(rng, shape)))
    if draw(st.booleans()):
        flat = mg.from_numpy(rng.integers(0, math.prod(shape), draw(st.integers(0, 4))))
        return Problem(lambda x: x.take_along_dim(flat), [x])
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    size = [n if draw(st.booleans()) else 1 for n in shape]
    size[dim] = draw(st.integers(0, 4))
    index = rng.integers(0, shape[dim], size)
    forms = [
        lambda x: mg.take_along_dim(x, mg.from_numpy(index), dim),
        lambda x: np.take_along_axis(x, index, dim),
    ]
    return Problem(draw(st.sampled_from(forms)), [x])


@st.composite
def index_adds(draw):
    """index_add: x and the source differentiated; slices meet at one position; scaled by alpha."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=1, max_dims=3, max_size=9))
    assume(0 not in shape)
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    size = list(shape)
    size[dim] = draw(st.integers(0, 3))
    index = mg.from_numpy(rng.integers(0, shape[dim], size[dim]))
    alpha = draw(st.sampled_from([1, -0.5]))
    arrays = [draw(laid_out(two_sided(rng, shape))), draw(laid_out(two_sided(rng, tuple(size))))]
    return Problem(lambda x, source: x.index_add(dim, index, source, alpha=alpha), arrays)


@st.composite
def interleavings(draw):
    """repeat_interleave: all slices equally often, or each by its own count, also by none."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=1, max_dims=3, max_size=9))
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    counts = mg.from_numpy(rng.integers(0, 3, shape[dim]))
    times = draw(st.integers(0, 3))
    forms = [
        lambda x: x.repeat_interleave(times, dim),
        lambda x: mg.repeat_interleave(x, counts, dim=dim),
        lambda x: np.repeat(x, times, dim),
        lambda x: x.repeat_interleave(times),
    ]
    return Problem(draw(st.sampled_from(forms)), [draw(laid_out(two_sided(rng, shape)))])


@st.composite
def linears(draw):
    """x Wᵀ + b for x of one dimension and more, with and without b; each may be a constant."""
    rng = draw(generators())
    rows = draw(st.sampled_from([(), (2,), (2, 2), (1, 3), (0,), (2, 1, 2)]))
    n_in, n_out = draw(st.sampled_from([(3, 2), (1, 2), (2, 1), (2, 3), (0, 2), (2, 0)]))
    arrays = [draw(laid_out(two_sided(rng, shape))) for shape in [(*rows, n_in), (n_out, n_in), (n_out,)]]
    linear = registry["linear"]
    match draw(st.sampled_from(["all", "no bias", "x", "weight", "bias"])):
        case "all":
            return Problem(linear, arrays)
        case "no bias":
            return Problem(lambda x, w: linear(x, w, None), arrays[:2])
        case "x":
            return Problem(linear, arrays[:1], arrays[1:])
        case "weight":
            return Problem(lambda w, x, b: linear(x, w, b), arrays[1:2], [arrays[0], arrays[2]])
        case _:
            return Problem(lambda b, x, w: linear(x, w, b), arrays[2:], arrays[:2])


@st.composite
def layer_norms(draw):
    """Layer norm over one dimension or two, with every combination of weight and bias."""
    rng = draw(generators())
    rows = draw(st.sampled_from([(), (2,), (2, 2), (0,)]))
    shape = draw(st.sampled_from([(3,), (4,), (2, 2), (1,)]))
    eps = draw(st.sampled_from([1e-5, 0.5]))
    # The function turns within the deviation σ of a row, and the error of differences grows with (h/σ)⁴: the
    # ends of each row lie two apart at least.  A row without variance (stride 0) needs a larger ε.
    x = two_sided(rng, (*rows, *shape), low=1.0)
    flat = x.reshape(-1, math.prod(shape))
    flat[:, 0], flat[:, -1] = np.abs(flat[:, 0]), -np.abs(flat[:, -1])
    x = draw(laid_out(x, repeat=eps == 0.5))
    weight, bias = (draw(laid_out(two_sided(rng, shape))) for _ in range(2))
    norm = registry["layer_norm"]
    match draw(st.sampled_from(["both", "weight", "bias", "neither", "x constant"])):
        case "both":
            return Problem(lambda x, w, b: norm(x, shape, w, b, eps), [x, weight, bias])
        case "weight":
            return Problem(lambda x, w: norm(x, shape, w, None, eps), [x, weight])
        case "bias":
            return Problem(lambda x, b: norm(x, shape, None, b, eps), [x, bias])
        case "neither":
            return Problem(lambda x: norm(x, shape, None, None, eps), [x])
        case _:
            return Problem(lambda w, b, x: norm(x, shape, w, b, eps), [weight, bias], [x])


@st.composite
def cross_entropies(draw):
    """Cross-entropy with every reduction, smoothed or not, some rows (perhaps all) ignored."""
    rng = draw(generators())
    n, v = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    target = rng.integers(0, v, n)
    ignore_index = draw(st.sampled_from([-100, 0, -1]))
    target[rng.random(n) < draw(st.sampled_from([0.0, 0.4, 1.0]))] = ignore_index
    options = {
        "ignore_index": ignore_index,
        "reduction": draw(st.sampled_from(["mean", "sum", "none"])),
        "label_smoothing": draw(st.sampled_from([0.0, 0.1])),
    }
    logits = draw(laid_out(two_sided(rng, (n, v))))
    indices = mg.from_numpy(target)
    return Problem(lambda logits: registry["cross_entropy"](logits, indices, **options), [logits])


@st.composite
def attentions(draw):
    """Attention with T ≠ S, batches that broadcast, every kind of mask, rows without any key, and dropout."""
    rng = draw(generators())
    t, s, d, v = (draw(st.integers(1, 3)) for _ in range(4))
    batches = draw(st.sampled_from([((), ()), ((2,), (2,)), ((2, 1), (1, 2)), ((2,), ()), ((1,), (2,))]))
    shapes_ = [(*batches[0], t, d), (*batches[1], s, d), (*batches[1], s, v)]
    arrays = [draw(laid_out(two_sided(rng, shape))) for shape in shapes_]
    batch = np.broadcast_shapes(*batches)
    options: dict[str, Any] = {"is_causal": draw(st.booleans()), "scale": draw(st.sampled_from([None, 0.3]))}
    if draw(st.booleans()):
        options["kept"] = mg.from_numpy(np.float32(2) * (rng.random((*batch, t, s)) < 0.5))  # widens no float64
    shape = draw(st.sampled_from([(t, s), (*batch, t, s), (1, s)]))
    seen = rng.random(shape) < 0.6
    if draw(st.booleans()):
        seen[..., 0, :] = False
    attention = registry["attention"]
    match draw(st.sampled_from(["none", "bool", "float"])):
        case "none":
            return Problem(lambda q, k, v: attention(q, k, v, **options), arrays)
        case "bool":
            mask = mg.from_numpy(seen)
            return Problem(lambda q, k, v: attention(q, k, v, mask, **options), arrays)
        case _:
            bias = np.where(seen, two_sided(rng, shape), -np.inf)
            return Problem(lambda q, k, v, mask: attention(q, k, v, mask, **options), arrays, [bias])


@st.composite
def lookups(draw):
    """Rows of a table: repeated, missing, none, by indices of any shape."""
    rng = draw(generators())
    weight = draw(laid_out(two_sided(rng, (4, draw(st.integers(1, 3))))))
    shape = draw(st.sampled_from([(), (3,), (2, 3), (0,)]))
    indices = mg.from_numpy(rng.integers(0, 4, shape))
    return Problem(lambda weight: registry["embedding_lookup"](weight, indices), [weight])


# --- the table ------------------------------------------------------------------------------------

grid_pair = (on_grid, lambda rng, shape: on_grid(rng, shape, 1 / 8))

# Where an elementwise operation is defined and smooth, if that is not everywhere off 0.
NUMBERS = {
    **dict.fromkeys(["log", "log2", "log10", "log1p", "sqrt", "rsqrt"], positive),
    **dict.fromkeys(["asin", "acos"], inside_one),
    **dict.fromkeys(["floor", "ceil", "trunc", "round"], between_integers),
    "tan": lambda rng, shape: two_sided(rng, shape, 0.25, 1.2),
}


def declared(operation):
    """Draw arguments for an elementwise operation, in all spellings that its declaration has given it.

    Those are the operation as a function, NumPy's functions of that meaning, and a method of Tensor.
    """
    own = [function for function, meant in numpy_functions.items() if meant is operation]
    forms = [operation, *own, method(lambda x, *y: getattr(x, operation.name)(*y))]
    numbers = NUMBERS.get(operation.name, two_sided)
    if len(operation.operands) == 1:
        return unary(*forms, numbers=numbers)
    return binary(*forms, numbers=(numbers, numbers))


ELEMENTWISE = {
    operation.name: operation
    for family in Elementwise.__mro__
    for operation in vars(family).values()
    if isinstance(operation, Op) and operation.rules
}

CASES = {
    # elementwise: what is declared, and in other words what has other spellings, or kinks
    **{name: declared(operation) for name, operation in ELEMENTWISE.items() if len(operation.operands) < 3},
    "add": binary(lambda x, y: x + y, mg.add, np.add, method(lambda x, y: x.add(y))),
    "sub": binary(lambda x, y: x - y, mg.sub, np.subtract, method(lambda x, y: x.sub(y))),
    "mul": binary(lambda x, y: x * y, mg.mul, np.multiply, method(lambda x, y: x.mul(y))),
    "div": binary(lambda x, y: x / y, mg.div, np.divide, method(lambda x, y: x.div(y))),
    "neg": unary(lambda x: -x, mg.neg, np.negative),
    "pow": powers(),
    "abs": unary(abs, mg.abs, np.abs, np.fabs),
    "maximum": binary(mg.maximum, np.maximum, numbers=grid_pair, scalars=(0.0625, np.float64(-0.3125))),
    "minimum": binary(mg.minimum, np.minimum, numbers=grid_pair, scalars=(0.0625, np.float64(-0.3125))),
    "clamp": clamps(),
    "where": choices(),
    "masked_fill": fills(),
    "remainder": remainders(),
    "contiguous": unary(registry["contiguous"]),
    "identity": unary(registry["identity"]),
    "cast": unary(lambda x: registry["cast"](x, x.dtype)),
    # reductions
    "sum": reductions(
        lambda x, dim, keepdim: x.sum(dim, keepdim),
        lambda x, dim, keepdim: mg.sum(x, axis=dim, keepdims=keepdim),
        lambda x, dim, keepdim: np.sum(x, axis=dim, keepdims=keepdim),
        count=0,
    ),
    "mean": reductions(
        lambda x, dim, keepdim: x.mean(dim, keepdim),
        lambda x, dim, keepdim: np.mean(x, axis=dim, keepdims=keepdim),
    ),
    "var": spreads("var"),
    "std": spreads("std"),
    "amax": reductions(
        lambda x, dim, keepdim: x.amax(dim, keepdim),
        lambda x, dim, keepdim: np.max(x, axis=dim, keepdims=keepdim),
        numbers=distinct,
        repeat=False,
    ),
    "amin": reductions(
        lambda x, dim, keepdim: mg.amin(x, dim, keepdim),
        lambda x, dim, keepdim: np.amin(x, axis=dim, keepdims=keepdim),
        numbers=distinct,
        repeat=False,
    ),
    "max": extremes("max"),
    "min": extremes("min"),
    "logsumexp": reductions(
        lambda x, dim, keepdim: x.logsumexp(dim, keepdim),
        lambda x, dim, keepdim: mg.logsumexp(x, dim=dim, keepdim=keepdim),
        none=False,
    ),
    "euclidean_norm": reductions(lambda x, dim, keepdim: x.norm(dim=dim, keepdim=keepdim), count=0),
    "norm": norms(),
    "prod": reductions(
        lambda x, dim, keepdim: x.prod(dim, keepdim),
        lambda x, dim, keepdim: mg.prod(x, axis=dim, keepdims=keepdim),
        numbers=some_zeros,
        count=0,
    ),
    "cumprod": along_a_dim(lambda x, dim: x.cumprod(dim), mg.cumprod, numbers=some_zeros),
    "recurrence": recurrences(),
    "cumsum": along_a_dim(
        lambda x, dim: x.cumsum(dim), lambda x, dim: np.cumsum(x, axis=dim), mg.cumsum, min_dims=1
    ),
    # products
    "matmul": products(
        lambda x, y: x @ y,
        mg.matmul,
        np.matmul,
        lambda x, y: x.matmul(y) if isinstance(x, mg.Tensor) else x @ y,
    ),
    "bmm": products(mg.bmm, pairs=[((2, 2, 3), (2, 3, 2)), ((1, 2, 1), (1, 1, 3)), ((2, 2, 0), (2, 0, 2))]),
    "dot": products(mg.dot, pairs=[((3,), (3,)), ((1,), (1,)), ((0,), (0,))]),
    "vecdot": products(
        lambda x, y: np.vecdot(x, y),
        pairs=[
            ((3,), (3,)),
            ((2, 3), (3,)),
            ((2, 1, 3), (4, 3)),
            ((1,), (2, 1)),
            ((2, 0), (0,)),
            ((0, 2), (1, 2)),
        ],
    ),
    "outer": products(mg.outer, pairs=[((3,), (2,)), ((1,), (4,)), ((0,), (2,))]),
    "einsum": einsums(),
    # shapes
    "reshape": reshapes(),
    "permute": permutations(),
    "transpose": transpositions(),
    "expand": expansions(),
    "unsqueeze": unsqueezes(),
    "squeeze": reductions(
        lambda x, dim, keepdim: x.squeeze() if dim is None else x.squeeze(dim),
        lambda x, dim, keepdim: mg.squeeze(x, dim),
        count=0,
    ),
    "diagonal": diagonals(),
    "pad": pads(),
    "flip": flips(),
    "roll": rolls(),
    "tril": triangles("tril"),
    "triu": triangles("triu"),
    "repeat": repetitions(),
    "cat": joins(),
    "stack": stacks(),
    "split": pieces(
        lambda x, size, dim: x.split(size, dim),
        lambda x, size, dim: mg.split(x, size, dim=dim),
        lambda x, size, dim: x.chunk(size, dim),
        sections,
    ),
    "unbind": pieces(lambda x, size, dim: x.unbind(dim), lambda x, size, dim: tuple(x)),
    # indexing
    "getitem": selections(),
    "place": placements(),
    "overwrite": assignments(),
    "gather": gathers(),
    "take_along_dim": takes(),
    "index_add": index_adds(),
    "index_fill": along_a_dim(
        lambda x, dim: x.index_fill(dim, mg.tensor([0, 0]), -0.5) if x.numel() else x * 1, min_dims=1
    ),
    "repeat_interleave": interleavings(),
    "movedim": along_a_dim(
        lambda x, dim: mg.movedim(x, dim, 0), lambda x, dim: np.moveaxis(x, 0, dim), min_dims=1
    ),
    "index_select": index_selects(),
    "scatter_add": scatters(),
    "scatter": scatters_over(),
    # kernels
    "softmax": along_a_dim(lambda x, dim: x.softmax(dim), lambda x, dim: mg.softmax(x, dim=dim)),
    "log_softmax": along_a_dim(lambda x, dim: x.log_softmax(dim), lambda x, dim: mg.log_softmax(x, dim=dim)),
    "gelu": unary(lambda x: x.gelu(), lambda x: x.gelu(approximate="tanh")),
    "linear": linears(),
    "layer_norm": layer_norms(),
    "cross_entropy": cross_entropies(),
    "attention": attentions(),
    "embedding_lookup": lookups(),
}


def test_every_operation_has_a_case():
    """An operation that can be differentiated and has no case above is an operation that nobody checks."""
    differentiable = {
        name
        for name, operation in registry.items()
        if (operation.rules or operation.joint) and operation.forward.__module__.startswith("minigrad")
    }
    missing = sorted(differentiable - CASES.keys())
    assert not missing, f"operations without a case in CASES: {', '.join(missing)}"


# --- what must hold of every operation ------------------------------------------------------------

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


# --- lists too long to be drawn from, each row of which must hold -------------------------------


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
