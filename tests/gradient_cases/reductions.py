"""How to draw arguments of reductions and of sums and products along a dimension."""

import math

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from strategies import array_of, broadcastable, dims, distinct, generators, laid_out, on_grid, shapes, two_sided

import minigrad as mg
from minigrad.op import registry

from .problem import Problem, along_a_dim, reductions


def some_zeros(rng, shape):
    """Return numbers of both signs, about a third of them exactly 0: a product must not divide by its factors."""
    return two_sided(rng, shape) * (rng.random(shape) < 0.65)


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


@st.composite
def recurrences(draw):
    """s₀ = a₀, sᵢ = aᵢ + xᵢ sᵢ₋₁, an operation that only rules use."""
    shape = draw(st.sampled_from([(1,), (4,), (2, 3), (2, 1)]))
    arrays = [draw(array_of(shape)) for _ in range(2)]
    return Problem(registry["recurrence"], arrays)


CASES = {
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
}
