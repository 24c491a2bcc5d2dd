"""Every operation as a method of Tensor: a line each, which editors and type checkers can see."""

# This class is a part of Tensor, and a type checker that looks at a part alone misses the others:
# mypy: disable-error-code="arg-type, attr-defined, misc, no-any-return, override, return-value"

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minigrad.arguments import as_array, sizes
from minigrad.graph import TensorBase
from minigrad.kernels import activation
from minigrad.kernels import softmax as softmax_kernel
from minigrad.operators import Operators
from minigrad.rules import elementwise, indexing, linalg, piecewise, reduce, shape
from minigrad.rules.elementwise import Elementwise

if TYPE_CHECKING:
    from minigrad.tensor import Tensor


class ValuesAndIndices(NamedTuple):
    """What ``max``, ``min``, ``sort`` and ``topk`` over one dimension return."""

    values: Tensor
    indices: Tensor


class Methods(Operators):
    """The operations, as methods that make a new tensor; the elementwise ones come with their declarations."""

    __slots__ = ()

    # --- elementwise, with arguments of their own -------------------------------------------------

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """Return this tensor divided by ``other``: :func:`minigrad.div`."""
        return divide(self, other, rounding_mode)

    divide = true_divide = div

    def addcmul(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """Return ``self + value · tensor1 · tensor2``."""
        return elementwise.addcmul(self, tensor1, tensor2, value=value)

    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """Return ``self + value · tensor1 / tensor2``."""
        return elementwise.addcdiv(self, tensor1, tensor2, value=value)

    def frac(self) -> Tensor:
        """Return each element without its integer part."""
        return elementwise.frac(self)

    def lerp(self, end: Any, weight: Any) -> Tensor:
        """Return ``self + weight · (end − self)``."""
        return elementwise.lerp(self, end, weight)

    def equal(self, other: Any) -> Any:
        """Return whether both have the same shape and elements: a bool."""
        return np.array_equal(self._data, as_array(other))

    def allclose(self, other: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False) -> Any:
        """Return whether |self − other| ≤ atol + rtol · |other| for all elements: a bool.

        Args:
            other: a tensor, array or number, which broadcasts.
            rtol: how far the elements may lie apart, relative to ``other``.
            atol: how far they may lie apart besides.
            equal_nan: whether NaN equals NaN.

        Raises:
            RuntimeError: the shapes don't broadcast.
        """
        return Elementwise.isclose(self, other, rtol, atol, equal_nan).all().item()

    def where(self, condition: Tensor, other: Any) -> Tensor:
        """Return this tensor where ``condition`` is true, else ``other``."""
        return piecewise._where(condition, self, other)

    # --- reductions -------------------------------------------------------------------------------

    sum = reduce.sum
    mean = reduce.mean
    var = reduce.var
    std = reduce.std
    amax = reduce.amax
    amin = reduce.amin
    argmax = reduce.argmax
    argmin = reduce.argmin
    logsumexp = reduce.logsumexp
    cumsum = reduce.cumsum
    prod = reduce.prod
    cumprod = reduce.cumprod
    count_nonzero = reduce.count_nonzero
    all = reduce.all
    any = reduce.any

    def norm(self, p: Any = 2, dim: Any = None, keepdim: Any = False) -> Tensor:
        """Return the p-norm over ``dim``: :func:`minigrad.norm`."""
        return reduce.norm(self, p, dim, keepdim)

    def max(self, dim: Any = None, keepdim: Any = False, **aliases: Any) -> Any:
        """Return the largest element; over one dimension, or against a tensor: :func:`minigrad.max`."""
        return extreme(reduce.amax, reduce.argmax, Elementwise.maximum, self, dim, keepdim, **aliases)

    def min(self, dim: Any = None, keepdim: Any = False, **aliases: Any) -> Any:
        """Return the smallest element; over one dimension, or against a tensor: :func:`minigrad.min`."""
        return extreme(reduce.amin, reduce.argmin, Elementwise.minimum, self, dim, keepdim, **aliases)

    # --- shape ------------------------------------------------------------------------------------

    def reshape(self, *shape_: Any) -> Tensor:
        """Return the same elements under another shape: ``x.reshape(2, -1)`` or ``x.reshape((2, -1))``."""
        return shape.reshape(self, sizes(shape_))

    def view(self, *shape_: Any) -> Tensor:
        """Return the same memory under another shape.

        Raises:
            RuntimeError: the elements don't lie in memory so that it can be had without copying.
        """
        out = shape.reshape(self, sizes(shape_))
        if self._data.size and out._version is not self._version:
            raise RuntimeError(
                f"a tensor of shape {self.shape} with strides {self._data.strides} (bytes) has no view of shape "
                f"{sizes(shape_)} without copying: use .reshape(...), or .contiguous().view(...)"
            )
        return out

    def view_as(self, other: Tensor) -> Tensor:
        """Return the same memory under the shape of ``other``."""
        return self.view(other.shape)

    def reshape_as(self, other: Tensor) -> Tensor:
        """Return the same elements under the shape of ``other``."""
        return self.reshape(other.shape)

    def permute(self, *dims: Any) -> Tensor:
        """Return the dimensions in another order: ``x.permute(2, 0, 1)``.  A view."""
        return shape.permute(self, sizes(dims))

    def expand(self, *sizes_: Any) -> Tensor:
        """Return the tensor broadcast to a shape, without copying; −1 keeps a size."""
        return shape.expand(self, sizes(sizes_))

    def expand_as(self, other: Tensor) -> Tensor:
        """Return the tensor broadcast to the shape of ``other``, without copying."""
        return shape.expand(self, other.shape)

    def repeat(self, *repeats: Any) -> Tensor:
        """Return the tensor laid side by side: ``x.repeat(2, 1)``."""
        return shape.repeat(self, sizes(repeats))

    def flatten(self, start_dim: Any = 0, end_dim: Any = -1) -> Tensor:
        """Return the dimensions from ``start_dim`` to ``end_dim``, that included, joined into one.

        Raises:
            IndexError: there is no such dimension.
            RuntimeError: ``start_dim`` comes after ``end_dim``.
        """
        if not self.ndim:
            return self.reshape(1)
        (start,), (end,) = reduce.normalize_dims(start_dim, self.ndim), reduce.normalize_dims(end_dim, self.ndim)
        if start > end:
            raise RuntimeError(f"flatten() needs start_dim <= end_dim, not {start_dim} and {end_dim}")
        joined = int(np.prod(self.shape[start : end + 1]))
        return self.reshape(*self.shape[:start], joined, *self.shape[end + 1 :])

    def ravel(self) -> Tensor:
        """Return all elements as a vector."""
        return self.reshape(-1)

    def unflatten(self, dim: Any, sizes_: Any) -> Tensor:
        """Return ``dim`` taken apart into dimensions of these sizes, of which one may be −1.

        Raises:
            IndexError: there is no such dimension.
            RuntimeError: the product of the sizes is another than its size.
        """
        (dim,) = reduce.normalize_dims(dim, self.ndim)
        try:
            apart = np.broadcast_to(0, self.shape[dim]).reshape(sizes((sizes_,))).shape  # works out the −1
        except ValueError:
            raise RuntimeError(
                f"unflatten() can't take a dimension of size {self.shape[dim]} apart into {sizes((sizes_,))}"
            ) from None
        return self.reshape(*self.shape[:dim], *apart, *self.shape[dim + 1 :])

    def broadcast_to(self, size: Any) -> Tensor:
        """Return the tensor broadcast to a shape, without copying."""
        return self.expand(size)

    transpose = swapaxes = swapdims = shape.transpose
    diagonal = shape.diagonal
    squeeze = shape.squeeze
    unsqueeze = shape.unsqueeze
    roll = shape.roll
    tril = shape.tril
    triu = shape.triu

    def flip(self, *dims: Any) -> Tensor:
        """Return the elements in reverse order along ``dims``."""
        return shape.flip(self, sizes(dims))

    def movedim(self, source: Any, destination: Any) -> Tensor:
        """Return the dimensions ``source`` moved to the places ``destination``: a view."""
        return shape.movedim(self, source, destination)

    moveaxis = movedim

    def tile(self, *dims: Any) -> Tensor:
        """Return the tensor laid side by side, dimensions counted from the last."""
        return shape.tile(self, sizes(dims))

    def diag(self, diagonal: Any = 0) -> Tensor:
        """Return a vector as a diagonal matrix, or the diagonal of a matrix."""
        return shape.diag(self, diagonal)

    def trace(self) -> Tensor:
        """Return the sum of the diagonal of a matrix."""
        return shape.trace(self)

    def narrow(self, dim: Any, start: Any, length: Any) -> Tensor:
        """Return the ``length`` slices of ``dim`` from ``start`` on: a view."""
        return indexing.narrow(self, dim, start, length)

    def select(self, dim: Any, index: Any) -> Tensor:
        """Return the slice of ``dim`` at one index: a view."""
        return indexing.select(self, dim, index)

    def t(self) -> Tensor:
        """Return the transpose of a matrix (a vector unchanged): a view.

        Raises:
            RuntimeError: there are more than 2 dimensions.
        """
        if self.ndim > 2:
            raise RuntimeError(f"t() is for at most 2 dimensions, not {self.ndim}: use .mT or .transpose(...)")
        return self.T

    @property
    def T(self) -> Tensor:
        """All dimensions in reverse order: a view."""
        return shape.permute(self, tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged: a view."""
        return shape.transpose(self, -1, -2)

    def split(self, split_size: Any, dim: Any = 0) -> tuple[Tensor, ...]:
        """Return the pieces of one size, or of the sizes listed, along ``dim``: views."""
        return shape.split(self, split_size, dim)

    def chunk(self, chunks: Any, dim: Any = 0) -> tuple[Tensor, ...]:
        """Return ``chunks`` pieces along ``dim``: views."""
        return shape.chunk(self, chunks, dim)

    def unbind(self, dim: Any = 0) -> tuple[Tensor, ...]:
        """Return the slices along ``dim``: views."""
        return shape.unbind(self, dim)

    # --- products and indexing --------------------------------------------------------------------

    matmul = linalg.matmul

    def bmm(self, other: Tensor) -> Tensor:
        """Return the matrix products of two batches."""
        return linalg.bmm(self, other)

    def dot(self, other: Tensor) -> Tensor:
        """Return the inner product of two vectors."""
        return linalg.dot(self, other)

    def mm(self, mat2: Tensor) -> Tensor:
        """Return the product of two matrices."""
        return linalg.mm(self, mat2)

    def mv(self, vec: Tensor) -> Tensor:
        """Return the product of a matrix and a vector."""
        return linalg.mv(self, vec)

    def outer(self, vec2: Tensor) -> Tensor:
        """Return the outer product of two vectors."""
        return linalg.outer(self, vec2)

    argsort = indexing.argsort

    def sort(self, dim: Any = -1, descending: Any = False, stable: Any = True) -> ValuesAndIndices:
        """Return the elements in order along ``dim``, and where they stood: :func:`minigrad.sort`."""
        return ValuesAndIndices(*indexing.sort(self, dim, descending, stable))

    def topk(self, k: Any, dim: Any = -1, largest: Any = True, sorted: Any = True) -> ValuesAndIndices:
        """Return the ``k`` largest or smallest elements, and where they stood: :func:`minigrad.topk`."""
        return ValuesAndIndices(*indexing.topk(self, k, dim, largest, sorted))

    def gather(self, dim: Any, index: Tensor) -> Tensor:
        """Return elements picked along ``dim``: :func:`minigrad.gather`."""
        return indexing.gather(self, dim, index)

    def index_select(self, dim: Any, index: Tensor) -> Tensor:
        """Return the slices along ``dim`` at the positions in ``index``."""
        return indexing.index_select(self, dim, index)

    def scatter_add(self, dim: Any, index: Tensor, src: Tensor) -> Tensor:
        """Return the tensor with ``src`` added at ``index`` along ``dim``."""
        return indexing.scatter_add(self, dim, index, src)

    def scatter(self, dim: Any, index: Tensor, src: Any) -> Tensor:
        """Return the tensor overwritten by ``src`` at ``index`` along ``dim``: :func:`minigrad.scatter`."""
        return indexing.scatter(self, dim, index, src)

    def index_add(self, dim: Any, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
        """Return the tensor with the slices of ``alpha · source`` added at ``index`` along ``dim``."""
        return indexing.index_add(self, dim, index, source, alpha)

    def index_fill(self, dim: Any, index: Tensor, value: Any) -> Tensor:
        """Return the tensor with ``value`` in the slices at ``index`` along ``dim``."""
        return indexing.index_fill(self, dim, index, value)

    def take_along_dim(self, indices: Tensor, dim: Any = None) -> Tensor:
        """Return elements picked along ``dim``, other dimensions broadcast."""
        return indexing.take_along_dim(self, indices, dim)

    def masked_select(self, mask: Tensor) -> Tensor:
        """Return the elements where ``mask`` is true, as a vector."""
        return indexing.masked_select(self, mask)

    def repeat_interleave(self, repeats: Any, dim: Any = None) -> Tensor:
        """Return each slice along ``dim`` repeated in a row: :func:`minigrad.repeat_interleave`."""
        return indexing.repeat_interleave(self, repeats, dim)

    def unique(self, sorted: Any = True, return_inverse: Any = False, return_counts: Any = False) -> Any:
        """Return the different elements in ascending order: :func:`minigrad.unique`."""
        return indexing.unique(self, sorted, return_inverse, return_counts)

    def bincount(self, weights: Tensor | None = None, minlength: Any = 0) -> Tensor:
        """Return how often each of 0, 1, … occurs: :func:`minigrad.bincount`."""
        return indexing.bincount(self, weights, minlength)

    def nonzero(self, as_tuple: Any = False) -> Any:
        """Return the indices of the elements that are not zero: (n, ndim), or a tuple of ndim vectors."""
        if as_tuple:
            return tuple(map(self.result_class, np.nonzero(np.atleast_1d(self._data))))
        return self.result_class(np.argwhere(self._data))

    # --- softmax and kin --------------------------------------------------------------------------

    softmax = softmax_kernel.softmax
    log_softmax = softmax_kernel.log_softmax
    gelu = activation.gelu


# --- behind some of them ----------------------------------------------------------------------------


def divide(x: Any, y: Any, rounding_mode: str | None = None) -> Tensor:
    """Return x / y: as it is, rounded down ("floor") or towards 0 ("trunc").

    Raises:
        RuntimeError: another ``rounding_mode``.
    """
    if rounding_mode is None:
        return Elementwise.div(x, y)
    if rounding_mode == "floor":
        return Elementwise.floor_divide(x, y)
    if rounding_mode != "trunc":
        raise RuntimeError(f'rounding_mode is None, "trunc" or "floor", not {rounding_mode!r}')
    quotient = Elementwise.div(x, y)
    if Elementwise.mul(x, y).dtype.kind == "f":
        return Elementwise.trunc(quotient)
    down = Elementwise.floor_divide(x, y)  # of integers: exact, whatever their size
    correction = ((down * y != x) & (down < 0)).to(down.dtype)
    return Elementwise.add(down, correction)


def extreme(
    reduction: Any, arg: Any, pairwise: Any, x: Any, dim: Any, keepdim: Any = False, **aliases: Any
) -> Any:
    """Return what PyTorch's ``max`` and ``min`` do: of all, over a dimension with indices, or of two tensors.

    Raises:
        IndexError: there is no such dimension.
        TypeError: there is no such argument.
    """
    dim = aliases.pop("axis", aliases.pop("other", dim))
    keepdim = aliases.pop("keepdims", keepdim)
    if aliases:
        name = reduction.name.removeprefix("a")
        raise TypeError(f"{name}() has no argument '{next(iter(aliases))}'; it takes (x, dim, keepdim)")
    if dim is None:
        return reduction(x)
    if isinstance(dim, TensorBase):
        return pairwise(x, dim)
    indices = arg(x, dim, True)
    values = indexing.gather(x, dim, indices) if x.ndim else x.clone()
    if not keepdim:
        values, indices = values.squeeze(dim), indices.squeeze(dim)
    return ValuesAndIndices(values, indices)
