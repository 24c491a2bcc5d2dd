"""Numbers and arrays in the little room that a picture has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FEW = 4  # elements of a vector that are written out
ROWS, COLUMNS = 8, 8  # of a matrix, where there is more room


def number(x: Any) -> str:
    """Return a number with four digits.

    >>> number(np.float32(0.1)), number(-1234567.0), number(3), number(True), number(-0.0)
    ('0.1', '-1.235e+06', '3', 'True', '0')
    """
    if isinstance(x, bool | np.bool_):
        return str(bool(x))
    if isinstance(x, int | np.integer):
        return str(int(x))
    return format(float(x) + 0.0, ".4g")  # + 0.0 makes 0 of −0


def short(array: Any, few: int = FEW) -> str:
    """Return an array in a few words: its elements if they are few, else the range that they span.

    >>> short(np.array([[1.0, 2.0], [3.0, 4.0]])), short(np.linspace(-1, 2, 100)), short(np.zeros((9, 9)))
    ('[[1, 2], [3, 4]]', '-1 … 2', 'all 0')
    """
    array = np.asarray(array)
    if array.ndim <= 2 and array.size <= few:
        return nested(array.tolist())
    if not array.size:
        return "empty"
    with np.errstate(all="ignore"):
        least, most = array.min(), array.max()
    if bool(np.isnan(least)):
        return "contains nan"
    return f"all {number(least)}" if least == most else f"{number(least)} … {number(most)}"


def nested(values: Any) -> str:
    """Return nested lists of numbers as text."""
    return f"[{', '.join(nested(value) for value in values)}]" if isinstance(values, list) else number(values)


def long(array: Any) -> str:
    """Return an array as lines: up to 8 rows of 8 numbers, and for larger ones what they are like.

    >>> print(long(np.arange(20.0)))
    0 1 2 3 4 5 6 7 …
    20 numbers: mean 9.5, standard deviation 5.766, norm 49.7
    """
    array = np.asarray(array)
    if array.ndim == 0:
        return number(array[()])
    rows = array.reshape(-1, array.shape[-1]) if array.size else array.reshape(0, 0)
    texts = [[number(x) for x in row[:COLUMNS]] for row in rows[:ROWS]]
    width = max((len(text) for row in texts for text in row), default=0) if len(texts) > 1 else 0
    more = " …" if rows.shape[1] > COLUMNS else ""
    lines = [" ".join(text.rjust(width) for text in row) + more for row in texts]
    if len(rows) > ROWS:
        lines.append("…")
    if array.size > FEW and array.dtype.kind == "f":
        with np.errstate(all="ignore"):
            exact = array.astype(np.float64)
            lines.append(
                f"{array.size:,} numbers: mean {number(exact.mean())}, standard deviation {number(exact.std())}, "
                f"norm {number(math.sqrt((exact * exact).sum()))}"
            )
    return "\n".join(lines)


def shape(of: Any) -> str:
    """Return a shape as a tuple of ints; of several results, all their shapes."""
    return ", ".join(str(tuple(one)) for one in of) if isinstance(of, list) else str(tuple(of))
