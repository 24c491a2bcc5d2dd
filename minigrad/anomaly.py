"""Anomaly mode: stop at the first value that is not finite, and say where it came from.

Inside ``with mg.autograd.detect_anomaly():`` every recorded operation remembers the user's source line, and every
value is looked at, forward and backward.  What counts is the step at which a NaN or an infinity *appears*: an
operation on values that hold some already is not blamed.
"""

from __future__ import annotations

import os
import traceback
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minigrad.observers import observing

if TYPE_CHECKING:
    from minigrad.graph import Node
    from minigrad.op import Op

PACKAGE = str(Path(__file__).parent) + os.sep  # of minigrad_notes.py beside it, not the beginning
TRAP = (
    "if where(...) or a mask is meant to discard it, its gradient still passes through here, as 0 times infinity "
    "or NaN: make the input itself safe, as in where(x > 0, x, 1).log()"
)


class detect_anomaly(observing):
    """Raise at the first NaN or infinity, forward or backward, naming the operation and the source line.

    >>> import minigrad as mg
    >>> x = mg.tensor([1.0, 0.0], requires_grad=True)
    >>> with mg.autograd.detect_anomaly():
    ...     mg.where(x > 0, x.sqrt(), 0).sum().backward()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    RuntimeError: the gradient of sqrt with respect to its input is not finite: nan at (1,) where the cotangent ...

    In this mode a value that a rule has saved may not change in any way until the backward pass, not even through
    the NumPy array behind it: that is noticed too.  Everything is several times slower.

    Args:
        check_nan: False only remembers source lines, for the sentences of other errors.
    """

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__("anomaly", self.trace)
        self.check_nan = check_nan

    def trace(self, node: Node | None, op: Op[...], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Look at the outputs of an operation, and have its node remember where it was called.

        Raises:
            RuntimeError: an output holds a NaN or an infinity that no input explains.
        """
        if self.check_nan:
            arrays = [np.asarray(x) for x in inputs if isinstance(x, np.ndarray | float)]
            for out in outputs:
                where = appeared(np.asarray(out), arrays)
                if where is not None:
                    raise RuntimeError(
                        f"{op.name} gives {np.asarray(out)[where]} at {where}, from inputs that explain no such "
                        f"value, called at {source_line()}; {TRAP}"
                    )
        if node is not None:
            checksums = [checksum(value) for value in node.saved or ()]
            node.trace = Trace(source_line(), self.check_nan, checksums)


class Trace(NamedTuple):
    """What a node remembers in anomaly mode."""

    source: str
    check: bool
    checksums: list[int | None]  # of the saved arrays


def source_line() -> str:
    """Return the innermost line outside this package: "file:line, in function: code"."""
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(PACKAGE):
            return f"{frame.filename}:{frame.lineno}, in {frame.name}: {frame.line}"
    return "unknown"


def checksum(value: Any) -> int | None:
    """Return a checksum of an array; None of anything else."""
    return zlib.crc32(np.ascontiguousarray(value).tobytes()) if isinstance(value, np.ndarray) else None


def appeared(result: np.ndarray[Any, Any], origins: Iterable[np.ndarray[Any, Any]]) -> tuple[int, ...] | None:
    """Return the first place of a NaN that no origin has, or else of an infinity where all origins are finite."""
    if result.dtype.kind != "f" or np.isfinite(result).all():
        return None
    floats = [array for array in origins if array.dtype.kind == "f"]
    wrong = np.isnan(result)
    if not wrong.any() or any(np.isnan(array).any() for array in floats):
        wrong = np.isinf(result)
        if not wrong.any() or any(not np.isfinite(array).all() for array in floats):
            return None
    return tuple(int(k) for k in np.argwhere(wrong)[0])


def check_saved(node: Node) -> None:
    """Raise if a saved array has changed since.

    Raises:
        RuntimeError: names the operation, the shape and the source line.
    """
    assert node.trace is not None
    for value, before in zip(node.saved or (), node.trace.checksums, strict=False):
        if before is not None and checksum(value) != before:
            raise RuntimeError(
                f"an array of shape {value.shape} that {node.op.name} had saved was written to behind the "
                f"engine's back, through NumPy; {node.op.name} was called at {node.trace.source}"
            )


def check_gradients(node: Node, cotangent: Any, gradients: Iterable[Any]) -> None:
    """Raise if a NaN or an infinity appears among the gradients of a node.

    Raises:
        RuntimeError: names the operation, the entry, the cotangent there, and the source line.
    """
    assert node.trace is not None
    if not node.trace.check:
        return
    arrays = [array_of(g) for g in (cotangent if isinstance(cotangent, list) else [cotangent])]
    for gradient in gradients:
        where = None if gradient is None else appeared(array_of(gradient), arrays)
        if where is not None:
            raise RuntimeError(
                f"the gradient of {node.op.name} with respect to its input is not finite: "
                f"{array_of(gradient)[where]} at {where} where the cotangent is finite; {node.op.name} was called "
                f"at {node.trace.source}; {TRAP}"
            )


def array_of(value: Any) -> np.ndarray[Any, Any]:
    """Return the array of a Tensor, or of a number."""
    return np.asarray(getattr(value, "_data", value))
