"""The operators of a Tensor: ``x + y``, ``x @ y``, ``x > y``, ``x[i]``, each the call of an operation."""

# This class is a part of Tensor, and a type checker that looks at a part alone misses the others:
# mypy: disable-error-code="arg-type, attr-defined, misc, no-any-return, override, return-value"

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minigrad.arguments import as_index
from minigrad.rules import indexing, linalg
from minigrad.rules.elementwise import Elementwise

if TYPE_CHECKING:
    from minigrad.tensor import Tensor

# What the operators call: to look an operation up on its class would take as long again as a small operation.
add, sub, mul, div, pow, neg = (
    Elementwise.add,
    Elementwise.sub,
    Elementwise.mul,
    Elementwise.div,
    Elementwise.pow,
    Elementwise.neg,
)


class Operators(Elementwise):
    """Python's operators; the elementwise operations stand behind most of them, and come along as methods."""

    __slots__ = ()

    def __add__(self, other: Any) -> Tensor:
        return add(self, other)

    def __radd__(self, other: Any) -> Tensor:
        return add(other, self)

    def __sub__(self, other: Any) -> Tensor:
        return sub(self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return sub(other, self)

    def __mul__(self, other: Any) -> Tensor:
        return mul(self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return mul(other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return div(self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return div(other, self)

    def __pow__(self, other: Any) -> Tensor:
        return pow(self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return pow(other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return linalg.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return linalg.matmul(other, self)

    def __mod__(self, other: Any) -> Tensor:
        return Elementwise.remainder(self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return Elementwise.remainder(other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return Elementwise.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return Elementwise.floor_divide(other, self)

    def __neg__(self) -> Tensor:
        return neg(self)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return Elementwise.abs(self)

    def __invert__(self) -> Tensor:
        if self.dtype.kind == "f":
            raise TypeError(f"~x is for integers and booleans, not {self.dtype}")
        return Elementwise.bitwise_not(self)

    def __and__(self, other: Any) -> Tensor:
        return Elementwise.bitwise_and(self, other)

    def __or__(self, other: Any) -> Tensor:
        return Elementwise.bitwise_or(self, other)

    def __xor__(self, other: Any) -> Tensor:
        return Elementwise.bitwise_xor(self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: Any) -> Tensor:
        return Elementwise.bitwise_left_shift(self, other)

    def __rshift__(self, other: Any) -> Tensor:
        return Elementwise.bitwise_right_shift(self, other)

    def __eq__(self, other: object) -> Any:
        return Elementwise.eq(self, other)

    def __ne__(self, other: object) -> Any:
        return Elementwise.ne(self, other)

    def __lt__(self, other: Any) -> Tensor:
        return Elementwise.lt(self, other)

    def __le__(self, other: Any) -> Tensor:
        return Elementwise.le(self, other)

    def __gt__(self, other: Any) -> Tensor:
        return Elementwise.gt(self, other)

    def __ge__(self, other: Any) -> Tensor:
        return Elementwise.ge(self, other)

    def __getitem__(self, index: Any) -> Tensor:
        return indexing.getitem(self, as_index(index, copy=self.requires_grad))
