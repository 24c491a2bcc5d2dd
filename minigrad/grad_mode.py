"""Is the graph being recorded?  A mode of each thread or asynchronous task, with PyTorch's ways to set it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, ClassVar, Self, TypeVar, overload

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]

Function = TypeVar("Function", bound=Callable[..., Any])

_recording: ContextVar[bool] = ContextVar("minigrad_recording", default=True)


def is_grad_enabled() -> bool:
    """Return whether operations are being recorded in this thread (or asynchronous task)."""
    return _recording.get()


class set_grad_enabled:
    """Record operations or not, from here on or inside a ``with`` block or a decorated function.

    The mode belongs to the current thread or task and is restored when the block ends, also by an exception.

    >>> import minigrad as mg
    >>> x = mg.tensor(2.0, requires_grad=True)
    >>> with mg.set_grad_enabled(False):
    ...     y = x * x
    >>> y.requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self.tokens: list[Token[bool]] = [_recording.set(self.mode)]

    def __enter__(self) -> None:
        # The call itself has already switched the mode (as in PyTorch); entering only keeps the way back.
        if not self.tokens:
            self.tokens.append(_recording.set(self.mode))

    def __exit__(self, *exception: object) -> None:
        _recording.reset(self.tokens.pop())

    def __call__(self, function: Function) -> Function:
        """Decorate ``function`` instead: the mode is as before again, and set whenever it runs."""
        _recording.reset(self.tokens.pop())

        @functools.wraps(function)
        def with_mode(*args: Any, **kwargs: Any) -> Any:
            with set_grad_enabled(self.mode):
                return function(*args, **kwargs)

        return with_mode  # type: ignore[return-value]


class _GradMode:
    """A ``with`` block and decorator that sets one grad mode; may be nested and re-entered."""

    mode: ClassVar[bool]

    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: Function) -> Function: ...  # type: ignore[misc]
    def __new__(cls, function: Any = None) -> Any:
        """Return the mode; of a function, as in ``@no_grad`` without parentheses, the decorated function."""
        return super().__new__(cls) if function is None else cls()(function)

    def __init__(self) -> None:
        self.tokens: list[Token[bool]] = []

    def __enter__(self) -> None:
        self.tokens.append(_recording.set(self.mode))

    def __exit__(self, *exception: object) -> None:
        _recording.reset(self.tokens.pop())

    def __call__(self, function: Function) -> Function:
        @functools.wraps(function)
        def with_mode(*args: Any, **kwargs: Any) -> Any:
            with type(self)():
                return function(*args, **kwargs)

        return with_mode  # type: ignore[return-value]


class no_grad(_GradMode):
    """Do not record: ``with mg.no_grad(): ...`` or ``@mg.no_grad()``.  Nothing is saved for a backward pass."""

    mode = False


class inference_mode(no_grad):
    """The same as :class:`no_grad`, under the name that PyTorch gives to evaluation."""


class enable_grad(_GradMode):
    """Record, also inside an outer :class:`no_grad`."""

    mode = True
