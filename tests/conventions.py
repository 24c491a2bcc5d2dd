"""The conventions: what an operation gives where mathematics leaves a choice, and what PyTorch gives there.

Each row is run by ``test_conventions.py``, here and on PyTorch, and is a row of the table in the documentation.
"""

import math
from typing import Any, NamedTuple

inf, nan = math.inf, math.nan


class Convention(NamedTuple):
    """One row.

    Attributes:
        case: in words.
        at: the values of the tensor x, float32 where they are floats; None where the code makes its own tensors.
        code: an expression in ``x``, ``mg``, ``F`` (``mg.nn.functional``), ``np``, ``inf`` and ``nan``.
        value: what it gives, as a list; or the name of the dtype; or the exception that it raises.
        gradient: the derivative of its sum with respect to x; None where none is asked for.
        pytorch: "same", or what PyTorch gives instead.
    """

    case: str
    at: Any
    code: str
    value: Any
    gradient: Any = None
    pytorch: str = "same"


KINKS = [
    Convention("relu at 0", [-1.0, 0.0, 1.0], "x.relu()", [0, 0, 1], [0, 0, 1]),
    Convention("abs at 0", [-1.0, 0.0, 1.0], "x.abs()", [1, 0, 1], [-1, 0, 1]),
    Convention("clamp at a bound", [-1.0, 0.0, 1.0, 2.0], "x.clamp(0, 1)", [0, 0, 1, 1], [0, 1, 1, 0]),
    Convention("hard steps: sign, floor, round, …", [0.5], "x.floor() + x.sign()", [1], [0]),
    Convention("round halves", [0.5, 1.5, 2.5], "x.round()", [0, 2, 2], [0, 0, 0]),
    Convention("sqrt at 0", [0.0], "x.sqrt()", [0], [inf]),
    Convention("log at 0 and below", [0.0, -1.0], "x.log()", [-inf, nan], [inf, -1]),
    Convention("norm at 0", [0.0, 0.0], "x.norm()", 0, [0, 0]),
    Convention("std of equal numbers", [1.0, 1.0], "x.std()", 0, [0, 0]),
    Convention("x⁰ at 0", [0.0], "x ** 0", [1], [0]),
    Convention("x² of a negative number", [-3.0], "x ** 2", [9], [-6]),
    Convention("0ʸ, in y", [0.0, 2.0], "mg.zeros(2) ** x", [1, 0], [0, 0]),
    Convention("prod with one zero", [0.0, 2.0, 3.0], "x.prod()", 0, [6, 0, 0]),
    Convention("prod with two zeros", [0.0, 0.0, 3.0], "x.prod()", 0, [0, 0, 0]),
    Convention("cumprod with a zero", [2.0, 0.0, 3.0], "x.cumprod(0)", [2, 0, 0], [1, 8, 0]),
]

TIES = [
    Convention("maximum, minimum of equals", [1.0], "mg.maximum(x, mg.ones(1))", [1], [0.5]),
    Convention("amax, amin", [3.0, 3.0, 1.0], "x.amax(0)", 3, [0.5, 0.5, 0]),
    Convention("max, min of all elements", [3.0, 3.0, 1.0], "x.max()", 3, [0.5, 0.5, 0]),
    Convention("max, min over a dimension: its index", [3.0, 3.0, 1.0], "x.max(dim=0).values", 3, [1, 0, 0]),
    Convention("argmax, argmin: the first", [3.0, 3.0, 1.0], "x.argmax()", 0),
    Convention("sort keeps the order of equals", [1.0, 0.0, 1.0], "mg.sort(x, stable=True).indices", [1, 0, 2]),
    Convention("an index that repeats: gradients add up", [5.0, 7.0], "x[mg.tensor([0, 0])]", [5, 5], [2, 0]),
    Convention(
        "an index that repeats in scatter: the last one counts",
        [1.0, 2.0],
        "mg.zeros(1).scatter(0, mg.tensor([0, 0]), x)",
        [2],
        [0, 1],
        "gradient [1, 1]",
    ),
]

INFINITE = [
    Convention("x / 0", [1.0, -1.0, 0.0], "x / 0", [inf, -inf, nan], [inf, inf, inf]),
    Convention("a NaN spreads through amax", [nan, 1.0], "x.amax(0)", nan),
    Convention("relu of NaN", [nan], "x.relu()", [nan]),
    Convention(
        "softmax of a row that is all −inf", [-inf, -inf], "x.softmax(0)", [0, 0], [0, 0], "NaN, gradient NaN"
    ),
    Convention("softmax of a row with some −inf", [-inf, 1.0], "x.softmax(0)", [0, 1], [0, 0]),
    Convention(
        "logsumexp of a row that is all −inf", [-inf, -inf], "x.logsumexp(0)", -inf, [0, 0], "gradient NaN"
    ),
    Convention(
        "where: the branch not taken has an infinite derivative",
        [0.0],
        "mg.where(x > 0, x.log(), 0.0)",
        [0],
        [nan],
    ),
    Convention(
        "the same, with a safe number inside", [0.0], "mg.where(x > 0, mg.where(x > 0, x, 1).log(), 0)", [0], [0]
    ),
]

EMPTY = [
    Convention("sum, prod of no elements", [], "mg.stack([x.sum(), x.prod()])", [0, 1], []),
    Convention("mean of no elements", [], "x.mean()", nan, []),
    Convention("var, std of one element", [1.0], "x.var()", nan, [nan]),
    Convention("logsumexp of no elements", [], "x.logsumexp(0)", -inf, []),
    Convention("amax, max, argmax of no elements", [], "x.max()", "RuntimeError"),
    Convention("a product over a dimension of size 0", None, "mg.ones(1, 0) @ mg.ones(0, 2)", [[0, 0]]),
    Convention(
        "cross-entropy with every target ignored",
        [[1.0, 2.0]],
        "F.cross_entropy(x, mg.tensor([-100]))",
        0,
        [[0, 0]],
        "NaN, gradient 0",
    ),
]

DTYPES = [
    Convention("a Python number is weak", None, "mg.ones(1) * 2.5", "float32"),
    Convention("also a NumPy scalar", None, "mg.ones(1) * np.float64(2.5)", "float32"),
    Convention("an integer tensor and a Python float", None, "mg.tensor([1]) * 2.5", "float32"),
    Convention("floats and integers", None, "mg.ones(1) + mg.tensor([1])", "float32"),
    Convention("float32 and float64", None, "mg.ones(1) + mg.ones(1, dtype=mg.float64)", "float64"),
    Convention("float16 and float32", None, "mg.ones(1, dtype=mg.float16) + mg.ones(1)", "float32"),
    Convention("int32 and int64", None, "mg.tensor([1], dtype=mg.int32) + mg.tensor([1])", "int64"),
    Convention("uint8 and int8", None, "mg.tensor([1], dtype=mg.uint8) + mg.tensor([1], dtype=mg.int8)", "int16"),
    Convention("booleans and integers", None, "mg.tensor([True]) + mg.tensor([1])", "int64"),
    Convention("integers divided", None, "mg.tensor([1]) / mg.tensor([2])", "float32"),
    Convention("exp, sqrt, … of integers", None, "mg.tensor([1]).exp()", "float32"),
    Convention(
        "mean, var and softmax of integers", None, "mg.tensor([1, 2]).mean()", "float32", None, "RuntimeError"
    ),
    Convention("sum, prod of booleans and integers", None, "mg.tensor([True]).sum()", "int64"),
    Convention("a comparison", None, "mg.ones(1) > 0", "bool"),
    Convention("an index", None, "mg.ones(2).argmax()", "int64"),
    Convention("a list of Python floats", None, "mg.tensor([0.5])", "float32"),
    Convention("a list of Python integers", None, "mg.tensor([1])", "int64"),
]

CONVENTIONS = {
    "Kinks and edges of a domain": KINKS,
    "Ties": TIES,
    "Infinities and NaN": INFINITE,
    "No elements, or too few": EMPTY,
    "Dtypes": DTYPES,
}
