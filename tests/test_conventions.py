"""What is laid down where mathematics leaves a choice: each row of the documentation's table, run."""

import numpy as np
import pytest
from conventions import CONVENTIONS, Convention, inf, nan

import minigrad as mg

ROWS = [pytest.param(row, id=row.case) for rows in CONVENTIONS.values() for row in rows]
MEASURED = {"float32", "float64", "int64", "int32", "int16", "bool"}


def outcome(row: Convention, engine, cotangent=1.0):
    """Return what a row's code gives on ``engine``: its value (a list, a dtype, an error's name), its gradient.

    The gradient is that of Σ cotangent · value, over the cotangent.
    """
    names = {"mg": engine, "F": engine.nn.functional, "np": np, "inf": inf, "nan": nan}
    if row.at is not None:
        names["x"] = engine.tensor(row.at, dtype=engine.float32, requires_grad=row.gradient is not None)
    try:
        out = eval(row.code, names)
    except (RuntimeError, IndexError, ValueError) as error:
        return type(error).__name__, None
    if isinstance(row.value, str) and row.value in MEASURED:
        return str(out.dtype).removeprefix("torch."), None
    value = out.detach().tolist()
    if row.gradient is None:
        return value, None
    out.backward(engine.full_like(out, cotangent))
    return value, (names["x"].grad / cotangent).tolist()


def equal(found, expected):
    """Return whether lists of numbers are equal, NaN to NaN; or whether words are."""
    if isinstance(found, str) or isinstance(expected, str):
        return found == expected
    return np.array_equal(np.asarray(found, float), np.asarray(expected, float), equal_nan=True)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("cotangent", [1.0, -2.0])
@pytest.mark.filterwarnings("ignore")
def test_each_row_holds_here(row, cotangent):
    """The gradient scales with the cotangent: a rule that squares it, or drops its sign, is none."""
    value, gradient = outcome(row, mg, cotangent)
    assert equal(value, row.value)
    assert row.gradient is None or equal(gradient, row.gradient)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.filterwarnings("ignore")
def test_each_row_says_what_pytorch_gives(row, torch):
    """Where "same" stands PyTorch gives the same; where something else stands, it gives that."""
    value, gradient = outcome(row, torch)
    same = equal(value, row.value) and (row.gradient is None or equal(gradient, row.gradient))
    assert same == (row.pytorch == "same")
    if not same:
        if isinstance(value, str):
            said = value
        else:
            words = [] if equal(value, row.value) else ["NaN"] if np.isnan(value).all() else [str(value)]
            as_word = "NaN" if np.isnan(gradient).all() else f"{np.asarray(gradient).ravel().astype(int).tolist()}"
            as_word = "0" if not np.asarray(gradient).any() else as_word
            said = ", ".join([*words, f"gradient {as_word}"])
        assert said == row.pytorch


def test_a_row_that_is_wrong_fails():
    assert not equal(outcome(Convention("", [0.0], "x.relu()", [0], [1]), mg)[1], [1])
    assert not equal(outcome(Convention("", [0.0], "x.relu()", [1]), mg)[0], [1])
    assert not equal(*outcome(Convention("", None, "mg.ones(1) * 2", "float64"), mg)[:1], "float64")
