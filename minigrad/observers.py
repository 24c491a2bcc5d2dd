"""Who is told of every operation as it runs: nobody, unless someone asked.

Anomaly mode looks at each value this way, :func:`minigrad.autograd.keep_values` keeps them for a picture of the
graph, and a model's summary counts its multiplications.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from minigrad.graph import Node
    from minigrad.op import Op

Observer: TypeAlias = "Callable[[Node | None, Op[...], Sequence[Any], Sequence[Any]], None]"
"""Called with the node (None where nothing is recorded), the operation, its arguments and its results: arrays."""

observers: ContextVar[Mapping[str, Observer] | None] = ContextVar("minigrad_observers", default=None)
"""By purpose, so that of two within each other the inner one counts.  Of this thread or task, as the grad mode."""


def tell(
    watching: Mapping[str, Observer], node: Node | None, op: Any, arguments: Sequence[Any], results: Sequence[Any]
) -> None:
    """Tell everyone who asked of an operation that has just run."""
    for observe in watching.values():
        observe(node, op, arguments, results)


class observing:
    """Have ``observer`` told of every operation inside a ``with`` block."""

    def __init__(self, purpose: str, observer: Observer) -> None:
        self.purpose = purpose
        self.observer = observer
        self.tokens: list[Token[Mapping[str, Observer] | None]] = []

    def __enter__(self) -> None:
        self.tokens.append(observers.set({**(observers.get() or {}), self.purpose: self.observer}))

    def __exit__(self, *exception: object) -> None:
        observers.reset(self.tokens.pop())


class Kept(NamedTuple):
    """What a node keeps inside :class:`keep_values`: copies, since the arrays themselves may be written later."""

    arguments: Sequence[Any]
    originals: Sequence[Any]  # the arguments themselves, for their identity
    results: Sequence[Any]
    saved: Sequence[Any] | None  # what the rules need


class keep_values(observing):
    """Have every recorded operation keep its arguments and results, for :func:`minigrad.draw`.

    Normally an operation keeps only what its rules need, and a backward pass frees that.  A picture then shows
    what can still be known.  Inside this block nothing is lost, at the price of its memory:

    >>> import minigrad as mg
    >>> x = mg.tensor(2.0, requires_grad=True)
    >>> with mg.autograd.keep_values():
    ...     z = (x + 1) * 3
    >>> z.backward()
    >>> mg.draw(z)
                  shape  value  gradient
    z = mul(y=3)  ()     9      1
    └─ add(y=1)   ()     3      3
       └─ x       ()     2      3
    """

    def __init__(self) -> None:
        super().__init__("values", self.keep)

    def keep(self, node: Node | None, op: Op[...], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Keep copies of the arrays with the node, also of what it saved, which a backward pass frees."""
        if node is not None:
            saved = None if node.saved is None else copied(node.saved)
            node.kept = Kept(copied(inputs), inputs, copied(outputs), saved)


def copied(values: Sequence[Any]) -> list[Any]:
    """Return the values with copies in place of arrays, which may be written later."""
    return [value.copy() if isinstance(value, np.ndarray) else value for value in values]
