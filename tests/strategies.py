"""What the property tests draw: shapes, dimensions, numbers and memory layouts.

Hypothesis draws the *structure* (shapes, dims, layouts, options): that is where engines go wrong, and where a
small counterexample is worth finding.  The numbers come from a NumPy generator whose seed is drawn: they lie on
both sides of zero, between 1/4 and 2 in size, where differences of functions are accurate.
"""

import math

import numpy as np
from hypothesis import strategies as st

# Shapes that have broken something somewhere: 0-d, empty, size-1 dimensions inside and outside.
NOTABLE_SHAPES = [(), (1,), (3,), (0,), (2, 3), (3, 1), (1, 4), (2, 0), (2, 1, 3), (2, 3, 2), (1, 2, 1, 3)]

# The same for pairs that broadcast.
NOTABLE_PAIRS = [
    ((1,), (5, 4)),
    ((2, 1, 3, 2), (2, 1, 3, 1)),
    ((3, 1), (1, 4)),
    ((), (2, 3)),
    ((3,), ()),
    ((0,), (1,)),
    ((2, 0, 1), (1, 3)),
    ((2, 3), (2, 3)),
    ((1, 1), (1,)),
    ((2, 2), (3, 1, 2)),
]

LAYOUTS = ["C", "Fortran", "reversed", "stepped", "read-only", "stride 0"]


def shapes(min_dims=0, max_dims=4, max_size=18):
    """Shapes of up to ``max_size`` elements: the notable ones and drawn ones."""
    drawn = st.lists(st.integers(1, 3), min_size=min_dims, max_size=max_dims).map(tuple)
    notable = [shape for shape in NOTABLE_SHAPES if min_dims <= len(shape) <= max_dims]
    return st.one_of(st.sampled_from(notable), drawn.filter(lambda shape: math.prod(shape) <= max_size))


@st.composite
def broadcastable(draw, shape, min_dims=0):
    """Draw a shape that broadcasts to ``shape``: some dimensions 1, some leading ones left out."""
    ones = [1 if draw(st.booleans()) else n for n in shape]
    return tuple(ones[draw(st.integers(0, max(0, len(shape) - min_dims))) :])


@st.composite
def broadcastable_pairs(draw):
    """Draw two shapes that broadcast against each other."""
    if draw(st.booleans()):
        pair = draw(st.sampled_from(NOTABLE_PAIRS))
        return pair if draw(st.booleans()) else pair[::-1]
    shape = draw(shapes(max_dims=3, max_size=12))
    return draw(broadcastable(shape)), draw(broadcastable(shape))


@st.composite
def dims(draw, ndim, *, none=True, several=True):
    """Draw a ``dim`` argument: an int counted from either end, a tuple or list of them, or None."""
    kinds = ["int"] * (ndim > 0) + ["several"] * several + ["none"] * none
    kind = draw(st.sampled_from(kinds))
    if kind == "none":
        return None
    if kind == "int":
        return draw(st.integers(-ndim, ndim - 1))
    if not ndim:
        return None if none else ()
    chosen = draw(st.lists(st.integers(0, ndim - 1), min_size=1, max_size=ndim, unique=True))
    signed = [d - ndim if draw(st.booleans()) else d for d in chosen]
    return tuple(signed) if draw(st.booleans()) else signed


def generators():
    """NumPy generators, by a drawn seed."""
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


def two_sided(rng, shape, low=0.25, high=2.0):
    """Return numbers of both signs, of sizes in [low, high]: none near 0, where functions have kinks."""
    return np.asarray(rng.uniform(low, high, shape) * rng.choice([-1.0, 1.0], shape))


def distinct(rng, shape, shift=0.0):
    """Return numbers on the grid {k/4 + shift}, in [−2, 2], all different as long as the grid allows.

    What compares numbers (max, sort, clamp) has a kink wherever two are equal, and differences must not step
    over it.  Two arrays with shifts 0 and 1/8 have no number in common and none within 1/8 of each other.
    """
    n = math.prod(shape)
    step = min(0.25, 4 / max(n, 1))
    return rng.permutation((np.arange(n) - n // 2) * step + shift).reshape(shape)


def on_grid(rng, shape, shift=0.0):
    """Return numbers on the grid {k/4 + shift}, in [−2, 2], repeats allowed."""
    return np.asarray(rng.integers(-8, 8, shape) / 4 + shift)


def lay_out(array, layout):
    """Return an array of the same values with another layout in memory ("stride 0": of its first row only).

    Whatever it is a view of lies in memory of its own.
    """
    array = np.asarray(array)
    if not array.ndim:
        layout = "read-only" if layout == "read-only" else "C"
    if layout == "Fortran":
        return np.array(array, order="F")
    if layout == "reversed":
        return np.flip(np.flip(array).copy())
    if layout == "stepped":
        wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan)
        wide[..., ::2] = array
        return wide[..., ::2]
    if layout == "stride 0":
        return np.broadcast_to(array[:1].copy(), array.shape)
    copy = array.copy()
    if layout == "read-only":
        copy.flags.writeable = False
    return copy


@st.composite
def laid_out(draw, array, *, repeat=True):
    """Draw a layout for ``array``; ``repeat`` allows the one that repeats its first row."""
    return lay_out(array, draw(st.sampled_from(LAYOUTS if repeat else LAYOUTS[:-1])))


@st.composite
def array_of(draw, shape, numbers=two_sided):
    """Draw an array of this shape: its numbers by a drawn seed, in a drawn layout."""
    return draw(laid_out(numbers(draw(generators()), shape)))
