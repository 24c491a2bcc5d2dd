"""The operations that write into a tensor's own memory, as methods whose names end in an underscore."""

# These classes are parts of Tensor, and a type checker that looks at a part alone misses the others:
# mypy: disable-error-code="arg-type, attr-defined, misc, no-any-return, override, return-value"

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from minigrad import inplace
from minigrad.arguments import as_index
from minigrad.methods import Methods
from minigrad.rules import elementwise, indexing
from minigrad.rules.elementwise import Elementwise

if TYPE_CHECKING:
    from minigrad.tensor import Tensor


DIRECT: dict[Any, np.ufunc] = {
    Elementwise.add: np.add,
    Elementwise.sub: np.subtract,
    Elementwise.mul: np.multiply,
    Elementwise.div: np.divide,
}


class InPlaceMethods(Methods):
    """The operations, as methods that overwrite the tensor, recorded as any others are.

    All return the tensor itself, and raise RuntimeError if it can't be written: it is a leaf that requires a
    gradient, and operations are recorded; its memory is read-only; or the result has another shape, or a dtype
    that doesn't fit in.
    """

    __slots__ = ()

    def _in_place(self, operation: Callable[..., Tensor], *arguments: Any) -> Self:
        """Overwrite the elements by ``operation(self, *arguments)``.

        Raises:
            RuntimeError: a leaf that requires a gradient is written while operations are recorded, the memory is
                read-only, or the result doesn't fit it.
        """
        ufunc = DIRECT.get(operation)
        if ufunc is not None and inplace.write_directly(self, ufunc, arguments[0]):
            return self
        inplace.replace(self, operation(self, *arguments), getattr(operation, "name", operation.__name__))
        return self

    def __iadd__(self, other: Any) -> Self:
        return self._in_place(Elementwise.add, other)

    def __isub__(self, other: Any) -> Self:
        return self._in_place(Elementwise.sub, other)

    def __imul__(self, other: Any) -> Self:
        return self._in_place(Elementwise.mul, other)

    def __itruediv__(self, other: Any) -> Self:
        return self._in_place(Elementwise.div, other)

    def __ipow__(self, other: Any) -> Self:
        return self._in_place(Elementwise.pow, other)

    def __iand__(self, other: Any) -> Self:
        return self._in_place(Elementwise.bitwise_and, other)

    def __ior__(self, other: Any) -> Self:
        return self._in_place(Elementwise.bitwise_or, other)

    def add_(self, other: Any, *, alpha: Any = 1) -> Self:
        """Add ``alpha · other`` in place."""
        return self._in_place(Elementwise.add, other if alpha == 1 else alpha * other)

    def sub_(self, other: Any, *, alpha: Any = 1) -> Self:
        """Subtract ``alpha · other`` in place."""
        return self._in_place(Elementwise.sub, other if alpha == 1 else alpha * other)

    def mul_(self, other: Any) -> Self:
        """Multiply in place."""
        return self._in_place(Elementwise.mul, other)

    def div_(self, other: Any) -> Self:
        """Divide in place."""
        return self._in_place(Elementwise.div, other)

    def exp_(self) -> Self:
        """Overwrite each element x by eˣ."""
        return self._in_place(Elementwise.exp)

    def sqrt_(self) -> Self:
        """Overwrite each element x by √x."""
        return self._in_place(Elementwise.sqrt)

    def log_(self) -> Self:
        """Overwrite each element x by ln x."""
        return self._in_place(Elementwise.log)

    def tanh_(self) -> Self:
        """Overwrite each element x by tanh x."""
        return self._in_place(Elementwise.tanh)

    def sigmoid_(self) -> Self:
        """Overwrite each element x by 1 / (1 + e⁻ˣ)."""
        return self._in_place(Elementwise.sigmoid)

    def relu_(self) -> Self:
        """Overwrite each element x by max(x, 0)."""
        return self._in_place(Elementwise.relu)

    def neg_(self) -> Self:
        """Overwrite each element x by −x."""
        return self._in_place(Elementwise.neg)

    def abs_(self) -> Self:
        """Overwrite each element x by |x|."""
        return self._in_place(Elementwise.abs)

    def floor_(self) -> Self:
        """Overwrite each element x by ⌊x⌋."""
        return self._in_place(Elementwise.floor)

    def ceil_(self) -> Self:
        """Overwrite each element x by ⌈x⌉."""
        return self._in_place(Elementwise.ceil)

    def round_(self) -> Self:
        """Overwrite each element x by the nearest integer; halves go to the even one."""
        return self._in_place(Elementwise.round)

    def square_(self) -> Self:
        """Overwrite each element x by x²."""
        return self._in_place(Elementwise.square)

    def reciprocal_(self) -> Self:
        """Overwrite each element x by 1 / x."""
        return self._in_place(Elementwise.reciprocal)

    def rsqrt_(self) -> Self:
        """Overwrite each element x by 1 / √x."""
        return self._in_place(Elementwise.rsqrt)

    def sin_(self) -> Self:
        """Overwrite each element x by sin x."""
        return self._in_place(Elementwise.sin)

    def cos_(self) -> Self:
        """Overwrite each element x by cos x."""
        return self._in_place(Elementwise.cos)

    def pow_(self, exponent: Any) -> Self:
        """Raise to a power in place."""
        return self._in_place(Elementwise.pow, exponent)

    def addcmul_(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Self:
        """Add ``value · tensor1 · tensor2`` in place."""
        return self._in_place(Elementwise.add, value * tensor1 * tensor2)

    def addcdiv_(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Self:
        """Add ``value · tensor1 / tensor2`` in place."""
        return self._in_place(Elementwise.add, value * tensor1 / tensor2)

    def lerp_(self, end: Any, weight: Any) -> Self:
        """Move towards ``end`` in place: x + weight · (end − x)."""
        return self._in_place(elementwise.lerp, end, weight)

    def scatter_(self, dim: Any, index: Tensor, src: Any = None, *, value: Any = None) -> Self:
        """Overwrite the elements at ``index`` along ``dim`` by ``src``, a tensor or a number."""
        return self._in_place(indexing.scatter, dim, index, src if value is None else value)

    def scatter_add_(self, dim: Any, index: Tensor, src: Tensor) -> Self:
        """Add ``src`` at ``index`` along ``dim`` in place."""
        return self._in_place(indexing.scatter_add, dim, index, src)

    def index_add_(self, dim: Any, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Self:
        """Add the slices of ``alpha · source`` at ``index`` along ``dim`` in place."""
        return self._in_place(indexing.index_add, dim, index, source, alpha)

    def index_fill_(self, dim: Any, index: Tensor, value: Any) -> Self:
        """Overwrite the slices at ``index`` along ``dim`` by ``value``."""
        return self._in_place(indexing.index_fill, dim, index, value)

    def uniform_(self, low: Any = 0.0, high: Any = 1.0, *, generator: Any = None) -> Self:
        """Overwrite the elements by uniform numbers in [low, high)."""
        # Here, because random.py makes tensors, and so imports this file.
        from minigrad.random import rand

        return self.copy_(rand(self.shape, generator=generator, dtype=self.dtype) * (high - low) + low)

    def normal_(self, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None) -> Self:
        """Overwrite the elements by numbers of the normal distribution of that mean and standard deviation."""
        from minigrad.random import randn

        return self.copy_(randn(self.shape, generator=generator, dtype=self.dtype) * std + mean)

    def fill_diagonal_(self, fill_value: Any) -> Self:
        """Overwrite the diagonal of a matrix by ``fill_value``.

        Raises:
            RuntimeError: the tensor is no matrix.
        """
        if self.ndim != 2:
            raise RuntimeError(f"fill_diagonal_() is for matrices, not shape {self.shape}")
        self.diagonal().fill_(fill_value)
        return self

    def clamp_(self, min: Any = None, max: Any = None) -> Self:
        """Limit to [min, max] in place."""
        return self._in_place(Elementwise.clamp, min, max)

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        """Overwrite the elements where ``mask`` is true by ``value``."""
        return self._in_place(Elementwise.masked_fill, mask, value)

    def copy_(self, source: Any) -> Self:
        """Overwrite the elements by those of ``source``, which broadcasts.

        Raises:
            RuntimeError: it doesn't broadcast to this shape.
        """
        self[...] = source
        return self

    def fill_(self, value: Any) -> Self:
        """Overwrite every element by ``value``."""
        return self.copy_(value)

    def zero_(self) -> Self:
        """Overwrite every element by 0."""
        return self.copy_(0)

    def __setitem__(self, index: Any, value: Any) -> None:
        inplace.assign(self, as_index(index), value)
