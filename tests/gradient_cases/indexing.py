"""How to draw arguments of operations that read or write at indices."""

import math

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from strategies import array_of, broadcastable, generators, laid_out, shapes, two_sided

import minigrad as mg
from minigrad.op import registry

from .problem import Problem, along_a_dim

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
    shape = draw(st.sampled_from([(3, 4)] * 6 + [(5,), (2, 3, 2), ()]))
    index = draw(st.sampled_from(INDICES[shape]))
    if isinstance(index, np.ndarray) and draw(st.booleans()):
        index = mg.from_numpy(index)
    return Problem(lambda x: x[index], [draw(array_of(shape))])


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
    x, value = draw(array_of((3, 4))), draw(array_of(small))

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
    return Problem(form, [draw(array_of(shape))])


@st.composite
def index_selects(draw):
    """index_select: slices in any order, some of them repeated."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=1))
    assume(0 not in shape)
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    index = mg.from_numpy(rng.integers(0, shape[dim], draw(st.integers(0, 4))))
    form = draw(st.sampled_from([lambda x: x.index_select(dim, index), lambda x: mg.index_select(x, dim, index)]))
    return Problem(form, [draw(array_of(shape))])


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
    x = draw(array_of(shape))
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
    src = draw(array_of(index.shape))
    x = draw(array_of(shape))
    if draw(st.booleans()):
        return Problem(lambda x: x.scatter(dim, index, 0.5), [x])
    return Problem(lambda x, src: x.scatter(dim, index, src), [x, src])


@st.composite
def takes(draw):
    """take_along_dim: an index of size 1 beside its dimension broadcasts; without a dim, of the flat tensor."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=1, max_dims=3))
    assume(0 not in shape)
    x = draw(array_of(shape))
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
    arrays = [draw(array_of(shape)), draw(array_of(tuple(size)))]
    return Problem(lambda x, source: x.index_add(dim, index, source, alpha=alpha), arrays)


CASES = {
    "getitem": selections(),
    "place": placements(),
    "overwrite": assignments(),
    "gather": gathers(),
    "take_along_dim": takes(),
    "index_add": index_adds(),
    "index_fill": along_a_dim(
        lambda x, dim: x.index_fill(dim, mg.tensor([0, 0]), -0.5) if x.numel() else x * 1, min_dims=1
    ),
    "index_select": index_selects(),
    "scatter_add": scatters(),
    "scatter": scatters_over(),
}
