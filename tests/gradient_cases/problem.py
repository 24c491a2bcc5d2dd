"""What is differentiated: a function and its arguments; and the ways to draw them that many operations share."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from strategies import broadcastable_pairs, dims, generators, laid_out, on_grid, shapes, two_sided

import minigrad as mg


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
def along_a_dim(draw, *forms, numbers=two_sided, min_dims=0):
    """y = f(x, dim) for one dimension (0 or −1 of a 0-d tensor)."""
    rng = draw(generators())
    shape = draw(shapes(min_dims=min_dims))
    n = max(len(shape), 1)
    dim = draw(st.integers(-n, n - 1))
    form = draw(st.sampled_from(forms))
    return Problem(lambda x: form(x, dim), [draw(laid_out(numbers(rng, shape)))])
