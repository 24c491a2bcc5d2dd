"""How to draw arguments of operations that move elements and compute nothing."""

import math

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from strategies import array_of, broadcastable, dims, generators, shapes

import minigrad as mg

from .problem import Problem, along_a_dim, reductions


@st.composite
def reshapes(draw):
    """Other shapes for the same elements: flat, reversed, with ones, with −1."""
    shape = draw(shapes())
    x = draw(array_of(shape))
    target = draw(st.sampled_from([(-1,), shape[::-1], (1, *shape, 1), shape, (math.prod(shape),)]))
    assume(0 not in shape or -1 not in target)
    forms = [lambda x: x.reshape(target), lambda x: x.reshape(*target), lambda x: np.reshape(x, target)]
    forms.append(lambda x: x.contiguous().view(target))
    forms.append(lambda x: x.flatten())
    return Problem(draw(st.sampled_from(forms)), [x])


@st.composite
def permutations(draw):
    """Dimensions in any order, each counted from either end."""
    shape = draw(shapes())
    order = draw(st.permutations(range(len(shape))))
    signed = tuple(d - len(shape) if draw(st.booleans()) else d for d in order)
    forms = [lambda x: x.permute(*signed), lambda x: x.permute(signed), lambda x: np.transpose(x, signed)]
    forms += [lambda x: x.T, lambda x: mg.permute(x, signed), np.transpose]
    return Problem(draw(st.sampled_from(forms)), [draw(array_of(shape))])


@st.composite
def transpositions(draw):
    """Two dimensions exchanged."""
    shape = draw(shapes(min_dims=2))
    i, j = draw(st.integers(-len(shape), len(shape) - 1)), draw(st.integers(-len(shape), len(shape) - 1))
    forms = [lambda x: x.transpose(i, j), lambda x: np.swapaxes(x, i, j), lambda x: x.mT]
    return Problem(draw(st.sampled_from(forms)), [draw(array_of(shape))])


@st.composite
def expansions(draw):
    """A shape stretched to a larger one, with −1 for sizes to keep."""
    shape = draw(shapes(max_size=12))
    small = draw(broadcastable(shape))
    extra = len(shape) - len(small)
    target = tuple(
        -1 if i >= extra and small[i - extra] == n and draw(st.booleans()) else n for i, n in enumerate(shape)
    )
    forms = [lambda x: x.expand(target), lambda x: x.expand(*target), lambda x: np.broadcast_to(x, shape)]
    return Problem(draw(st.sampled_from(forms)), [draw(array_of(small))])


@st.composite
def unsqueezes(draw):
    """A dimension of size 1 inserted anywhere."""
    shape = draw(shapes(max_dims=3))
    dim = draw(st.integers(-len(shape) - 1, len(shape)))
    forms = [lambda x: x.unsqueeze(dim), lambda x: np.expand_dims(x, dim), lambda x: x[..., None]]
    return Problem(draw(st.sampled_from(forms)), [draw(array_of(shape))])


@st.composite
def flips(draw):
    """Elements in reverse order along any dimensions."""
    shape = draw(shapes(min_dims=1))
    dim = draw(dims(len(shape), none=False))
    along = (dim,) if isinstance(dim, int) else tuple(dim)
    forms = [lambda x: x.flip(*along), lambda x: x.flip(along), lambda x: mg.flip(x, along), np.flip]
    return Problem(draw(st.sampled_from(forms)), [draw(array_of(shape))])


@st.composite
def rolls(draw):
    """Elements moved around along one dimension, two, or the flattened tensor."""
    shape = draw(shapes(min_dims=2))
    shift = draw(st.integers(-4, 4))
    forms = [lambda x: x.roll(shift, 0), lambda x: x.roll((shift, 1), (0, -1)), lambda x: mg.roll(x, shift)]
    return Problem(draw(st.sampled_from(forms)), [draw(array_of(shape))])


@st.composite
def triangles(draw, name):
    """The lower or upper triangle of the last two dimensions, about any diagonal."""
    shape = draw(shapes(min_dims=2))
    diagonal = draw(st.integers(-3, 3))
    forms = [
        lambda x: getattr(x, name)(diagonal),
        lambda x: getattr(mg, name)(x, diagonal=diagonal),
        getattr(np, name),
    ]
    return Problem(draw(st.sampled_from(forms)), [draw(array_of(shape))])


@st.composite
def repetitions(draw):
    """Copies side by side, with more numbers than dimensions, and none at all."""
    shape = draw(shapes(max_dims=2, max_size=6))
    n = len(shape) + draw(st.integers(0, 1))
    times = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 0]), min_size=n, max_size=n)))
    forms = [lambda x: x.repeat(*times), lambda x: x.repeat(times), lambda x: np.tile(x, times)]
    return Problem(draw(st.sampled_from(forms)), [draw(array_of(shape))])


@st.composite
def joins(draw):
    """cat: tensors of different sizes along one dimension, one of them perhaps empty or a constant."""
    shape = list(draw(shapes(min_dims=1, max_dims=3, max_size=6)))
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    arrays = []
    for size in draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)):
        shape[dim] = size
        arrays.append(draw(array_of(tuple(shape))))
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
    shape = draw(shapes(max_dims=2, max_size=6))
    dim = draw(st.integers(-len(shape) - 1, len(shape)))
    arrays = [draw(array_of(shape)) for _ in range(draw(st.integers(1, 3)))]
    forms = [lambda *xs: mg.stack(xs, dim), lambda *xs: np.stack(xs, axis=dim)]
    return Problem(draw(st.sampled_from(forms)), arrays)


@st.composite
def pieces(draw, *forms):
    """split, chunk and unbind: several outputs, of which only some are used."""
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

    return Problem(call, [draw(array_of(shape))])


def sections(x, size, dim):
    """Split into a first piece of ``size`` elements, an empty one, and the rest."""
    size = min(size, x.shape[dim])
    return x.split([size, 0, x.shape[dim] - size], dim)


@st.composite
def diagonals(draw):
    """The diagonal of any two dimensions, above, below, or beside the matrix."""
    shape = draw(shapes(min_dims=2))
    dim1, dim2 = draw(st.permutations(range(len(shape))))[:2]
    dim2 -= len(shape) * draw(st.booleans())
    offset = draw(st.integers(-2, 2))
    return Problem(lambda x: x.diagonal(offset, dim1, dim2), [draw(array_of(shape))])


@st.composite
def pads(draw):
    """A border of any width on either side of the last dimensions, filled with a number."""
    shape = draw(shapes(min_dims=1, max_dims=3, max_size=8))
    n = draw(st.integers(1, len(shape)))
    widths = draw(st.lists(st.integers(0, 2), min_size=2 * n, max_size=2 * n))
    value = draw(st.sampled_from([0.0, -1.5]))
    return Problem(lambda x: mg.nn.functional.pad(x, widths, value=value), [draw(array_of(shape))])


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
    return Problem(draw(st.sampled_from(forms)), [draw(array_of(shape))])


CASES = {
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
    "repeat_interleave": interleavings(),
    "movedim": along_a_dim(
        lambda x, dim: mg.movedim(x, dim, 0), lambda x, dim: np.moveaxis(x, 0, dim), min_dims=1
    ),
}
