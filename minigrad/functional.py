"""The operations as functions, ``minigrad.exp(x)``: the same that Tensor has as methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.arguments import as_array
from minigrad.kernels.softmax import log_softmax, softmax
from minigrad.methods import divide as _divide
from minigrad.nn.functional import cosine_similarity, one_hot
from minigrad.rules.elementwise import Elementwise, addcdiv, addcmul, frac, lerp
from minigrad.rules.indexing import (
    argsort,
    bincount,
    gather,
    index_add,
    index_fill,
    index_select,
    masked_select,
    narrow,
    repeat_interleave,
    scatter,
    scatter_add,
    searchsorted,
    select,
    take_along_dim,
    unique,
)
from minigrad.rules.linalg import (
    addmm,
    baddbmm,
    bmm,
    dot,
    einsum,
    kron,
    matmul,
    mm,
    mv,
    outer,
    tensordot,
)
from minigrad.rules.piecewise import where
from minigrad.rules.reduce import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    count_nonzero,
    cumprod,
    cumsum,
    logsumexp,
    mean,
    norm,
    prod,
    std,
    std_mean,
    sum,
    var,
    var_mean,
)
from minigrad.rules.shape import (
    cat,
    chunk,
    diag,
    diagonal,
    flip,
    hstack,
    meshgrid,
    movedim,
    permute,
    reshape,
    roll,
    split,
    squeeze,
    stack,
    tile,
    trace,
    transpose,
    tril,
    triu,
    unbind,
    unsqueeze,
    vstack,
)
from minigrad.tensor import Tensor
from minigrad.tensor import print_options as _print_options

__all__ = [
    "abs",
    "acos",
    "add",
    "addcdiv",
    "addcmul",
    "addmm",
    "all",
    "allclose",
    "amax",
    "amin",
    "any",
    "arccos",
    "arcsin",
    "arctan",
    "arctan2",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "asin",
    "atan",
    "atan2",
    "baddbmm",
    "bincount",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "bmm",
    "broadcast_to",
    "cat",
    "ceil",
    "chunk",
    "clamp",
    "clip",
    "clone",
    "compile",
    "concat",
    "concatenate",
    "cos",
    "cosh",
    "cosine_similarity",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "diag",
    "diagonal",
    "div",
    "divide",
    "dot",
    "einsum",
    "eq",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "fix",
    "flatten",
    "flip",
    "floor",
    "floor_divide",
    "frac",
    "gather",
    "ge",
    "greater",
    "greater_equal",
    "gt",
    "hstack",
    "index_add",
    "index_fill",
    "index_select",
    "is_floating_point",
    "is_tensor",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "kron",
    "le",
    "lerp",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "lt",
    "masked_fill",
    "masked_select",
    "matmul",
    "max",
    "maximum",
    "mean",
    "meshgrid",
    "min",
    "minimum",
    "mm",
    "moveaxis",
    "movedim",
    "mul",
    "multiply",
    "mv",
    "nan_to_num",
    "narrow",
    "ne",
    "neg",
    "negative",
    "nonzero",
    "norm",
    "not_equal",
    "numel",
    "one_hot",
    "outer",
    "permute",
    "pow",
    "prod",
    "ravel",
    "reciprocal",
    "relu",
    "remainder",
    "repeat_interleave",
    "reshape",
    "roll",
    "round",
    "rsqrt",
    "scatter",
    "scatter_add",
    "searchsorted",
    "select",
    "set_printoptions",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "std_mean",
    "sub",
    "subtract",
    "sum",
    "swapaxes",
    "swapdims",
    "t",
    "take_along_dim",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "topk",
    "trace",
    "transpose",
    "tril",
    "triu",
    "true_divide",
    "trunc",
    "unbind",
    "unflatten",
    "unique",
    "unsqueeze",
    "var",
    "var_mean",
    "vstack",
    "where",
]

abs = Elementwise.abs
acos = arccos = Elementwise.acos
add = Elementwise.add
asin = arcsin = Elementwise.asin
atan = arctan = Elementwise.atan
atan2 = arctan2 = Elementwise.atan2
bitwise_and = Elementwise.bitwise_and
bitwise_not = Elementwise.bitwise_not
bitwise_or = Elementwise.bitwise_or
bitwise_xor = Elementwise.bitwise_xor
ceil = Elementwise.ceil
clamp = clip = Elementwise.clamp
clone = Elementwise.clone
cos = Elementwise.cos
cosh = Elementwise.cosh
eq = Elementwise.eq
erf = Elementwise.erf
exp = Elementwise.exp
exp2 = Elementwise.exp2
expm1 = Elementwise.expm1
floor = Elementwise.floor
floor_divide = Elementwise.floor_divide
ge = greater_equal = Elementwise.ge
gt = greater = Elementwise.gt
isclose = Elementwise.isclose
isfinite = Elementwise.isfinite
isinf = Elementwise.isinf
isnan = Elementwise.isnan
le = less_equal = Elementwise.le
log = Elementwise.log
log1p = Elementwise.log1p
log2 = Elementwise.log2
log10 = Elementwise.log10
logaddexp = Elementwise.logaddexp
logical_and = Elementwise.logical_and
logical_not = Elementwise.logical_not
logical_or = Elementwise.logical_or
logical_xor = Elementwise.logical_xor
lt = less = Elementwise.lt
masked_fill = Elementwise.masked_fill
maximum = Elementwise.maximum
minimum = Elementwise.minimum
mul = multiply = Elementwise.mul
nan_to_num = Elementwise.nan_to_num
ne = not_equal = Elementwise.ne
neg = negative = Elementwise.neg
pow = Elementwise.pow
reciprocal = Elementwise.reciprocal
relu = Elementwise.relu
remainder = Elementwise.remainder
round = Elementwise.round
rsqrt = Elementwise.rsqrt
sigmoid = Elementwise.sigmoid
sign = Elementwise.sign
sin = Elementwise.sin
sinh = Elementwise.sinh
sqrt = Elementwise.sqrt
square = Elementwise.square
sub = subtract = Elementwise.sub
tan = Elementwise.tan
tanh = Elementwise.tanh
trunc = fix = Elementwise.trunc

swapaxes = swapdims = transpose
moveaxis = movedim
concat = concatenate = cat


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """x / y, elementwise with broadcasting; ``rounding_mode="floor"`` rounds down, "trunc" towards 0.

    Integers become floats of the default dtype, unless rounded.

    Raises:
        RuntimeError: another ``rounding_mode``.
    """
    return _divide(input, other, rounding_mode)


divide = true_divide = div


def max(input: Tensor, dim: Any = None, keepdim: bool = False, **aliases: Any) -> Any:
    """The largest element; over one dimension also its index; against another tensor the elementwise larger.

    >>> import minigrad as mg
    >>> mg.max(mg.tensor([[1.0, 3.0], [5.0, 2.0]]), dim=1)
    ValuesAndIndices(values=tensor([3., 5.]), indices=tensor([1, 0]))

    Over all elements, ties share the gradient evenly; over one dimension it goes to the index returned.

    Args:
        input: a tensor.
        dim: None for the largest of all; a dimension; or another tensor, which broadcasts.
        keepdim: whether the dimension stays, with size 1.
        aliases: ``axis``, ``keepdims`` and ``other``, NumPy's and PyTorch's names.

    Raises:
        IndexError: there is no such dimension, or it has no elements.
        RuntimeError: there are no elements at all, or the shapes don't broadcast.
    """
    return input.max(dim, keepdim, **aliases)


def min(input: Tensor, dim: Any = None, keepdim: bool = False, **aliases: Any) -> Any:
    """The smallest element; over one dimension also its index; against another tensor the elementwise smaller.

    Over all elements, ties share the gradient evenly; over one dimension it goes to the index returned.
    """
    return input.min(dim, keepdim, **aliases)


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements in order along ``dim``, and the indices at which they stood.

    Args:
        input: a tensor.
        dim: the dimension.
        descending: whether the largest comes first.
        stable: taken for PyTorch's sake; equal elements always keep their order.

    Raises:
        IndexError: there is no such dimension.
    """
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
    """Whether |x − y| ≤ atol + rtol · |y| for all elements; with ``equal_nan`` NaN equals NaN.

    Raises:
        RuntimeError: the shapes don't broadcast.
    """
    x, y = (Tensor(np.asarray(as_array(value))) for value in (input, other))
    return bool(x.allclose(y, rtol, atol, equal_nan))


def equal(input: Any, other: Any) -> bool:
    """Whether both have the same shape and elements."""
    return bool(np.array_equal(as_array(input), as_array(other)))


def is_tensor(value: object) -> bool:
    """Whether ``value`` is a Tensor."""
    return isinstance(value, Tensor)


def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()


def t(input: Tensor) -> Tensor:
    """The transpose of a matrix (a vector unchanged)."""
    return input.t()


def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """``dim`` taken apart into dimensions of these sizes, of which one may be −1."""
    return input.unflatten(dim, sizes)


def argwhere(input: Tensor) -> Tensor:
    """The indices of the elements that are not zero, (n, ndim)."""
    found: Tensor = input.nonzero()
    return found


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating one."""
    return bool(input.is_floating_point())


def ravel(input: Tensor) -> Tensor:
    """All elements as a vector."""
    return input.reshape(-1)


def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """``input`` broadcast to a shape, without copying; −1 keeps a size."""
    return input.expand(size)


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Choose how tensors are shown; what is left out stays as it was, and NumPy's own choices stay too.

    Args:
        precision: digits after the point.
        threshold: from how many elements on a tensor is shortened.
        edgeitems: how many elements then stay at each end of a dimension.
        linewidth: characters in a line.
        sci_mode: False never uses scientific notation, True may.
    """
    chosen = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "max_line_width": linewidth}
    _print_options.update({name: value for name, value in chosen.items() if value is not None})
    if sci_mode is not None:
        _print_options["suppress_small"] = not sci_mode


def compile(model: Any = None, **options: Any) -> Any:
    """Return ``model`` itself: NumPy's loops are compiled already, and nothing else is here.  Options are ignored.

    As a decorator, also with options: ``@mg.compile(mode="default")``.
    """
    return model if model is not None else compile
