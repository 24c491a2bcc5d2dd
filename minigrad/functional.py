"""The operations as functions, ``minigrad.exp(x)``: the same that Tensor has as methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.kernels.softmax import log_softmax, softmax
from minigrad.rules.elementwise import (
    abs,
    add,
    ceil,
    clamp,
    clone,
    cos,
    div,
    eq,
    erf,
    exp,
    expm1,
    floor,
    floor_divide,
    ge,
    gt,
    isfinite,
    isinf,
    isnan,
    le,
    log,
    log1p,
    log2,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    masked_fill,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    pow,
    reciprocal,
    relu,
    remainder,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sqrt,
    square,
    sub,
    tanh,
    where,
)
from minigrad.rules.indexing import argsort, gather, index_select, scatter_add
from minigrad.rules.linalg import bmm, dot, einsum, matmul, outer
from minigrad.rules.reduce import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    cumsum,
    logsumexp,
    mean,
    norm,
    std,
    sum,
    var,
)
from minigrad.rules.shape import (
    cat,
    chunk,
    flip,
    permute,
    reshape,
    roll,
    split,
    squeeze,
    stack,
    transpose,
    tril,
    triu,
    unbind,
    unsqueeze,
)
from minigrad.tensor import Tensor, as_array

__all__ = [
    "abs",
    "add",
    "all",
    "allclose",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "bmm",
    "cat",
    "ceil",
    "chunk",
    "clamp",
    "clip",
    "clone",
    "concat",
    "concatenate",
    "cos",
    "cumsum",
    "div",
    "divide",
    "dot",
    "einsum",
    "eq",
    "equal",
    "erf",
    "exp",
    "expm1",
    "flatten",
    "flip",
    "floor",
    "floor_divide",
    "gather",
    "ge",
    "gt",
    "index_select",
    "is_tensor",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "log",
    "log1p",
    "log2",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "lt",
    "masked_fill",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mm",
    "mul",
    "multiply",
    "mv",
    "ne",
    "neg",
    "negative",
    "nonzero",
    "norm",
    "numel",
    "outer",
    "permute",
    "pow",
    "reciprocal",
    "relu",
    "remainder",
    "reshape",
    "roll",
    "round",
    "rsqrt",
    "scatter_add",
    "sigmoid",
    "sign",
    "sin",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "sub",
    "subtract",
    "sum",
    "swapaxes",
    "swapdims",
    "tanh",
    "topk",
    "transpose",
    "tril",
    "triu",
    "true_divide",
    "unbind",
    "unsqueeze",
    "var",
    "where",
]

subtract, multiply, divide, true_divide, negative, clip = sub, mul, div, div, neg, clamp
swapaxes = swapdims = transpose
concat = concatenate = cat
mm = mv = matmul


def max(input: Tensor, dim: Any = None, keepdim: bool = False, **aliases: Any) -> Any:
    """The largest element; over one dimension also its index; against another tensor the elementwise larger.

    >>> import minigrad as mg
    >>> mg.max(mg.tensor([[1.0, 3.0], [5.0, 2.0]]), dim=1)
    ValuesAndIndices(values=tensor([3., 5.]), indices=tensor([1, 0]))

    Over all elements, ties share the gradient evenly; over one dimension it goes to the index returned.
    """
    return input.max(dim, keepdim, **aliases)


def min(input: Tensor, dim: Any = None, keepdim: bool = False, **aliases: Any) -> Any:
    """The smallest element; over one dimension also its index; against another tensor the elementwise smaller.

    Over all elements, ties share the gradient evenly; over one dimension it goes to the index returned.
    """
    return input.min(dim, keepdim, **aliases)


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements in order along ``dim``, and the indices at which they stood; equal ones keep their order."""
    return input.sort(dim, descending, stable)


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The ``k`` largest (or smallest) elements along ``dim``, in order, and the indices at which they stood.

    >>> import minigrad as mg
    >>> mg.topk(mg.tensor([1.0, 4.0, 2.0]), 2)
    ValuesAndIndices(values=tensor([4., 2.]), indices=tensor([1, 2]))

    Raises:
        RuntimeError: there are fewer than ``k`` elements.
    """
    return input.topk(k, dim, largest, sorted)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions from ``start_dim`` to ``end_dim`` joined into one."""
    return input.flatten(start_dim, end_dim)


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero: (n, ndim), or a tuple of ndim vectors."""
    return input.nonzero(as_tuple)


def allclose(input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether |x − y| ≤ atol + rtol · |y| for all elements."""
    x, y = (np.asarray(as_array(value)) for value in (input, other))
    return bool(np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan))


def equal(input: Any, other: Any) -> bool:
    """Whether both have the same shape and elements."""
    return bool(np.array_equal(as_array(input), as_array(other)))


def is_tensor(value: object) -> bool:
    """Whether ``value`` is a Tensor."""
    return isinstance(value, Tensor)


def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()
