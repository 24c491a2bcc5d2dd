"""The checker: it accepts right rules, and says of wrong ones where and how."""

import numpy as np
import pytest
from tensors import leaf

import minigrad as mg
from minigrad.op import op


def checked(rule):
    """Return what gradcheck says of x² with this ``rule``, or True."""

    @op(x=rule)
    def squared(x):
        return x * x

    x = leaf([0.7, -1.3, 2.0])
    try:
        return mg.autograd.gradcheck(squared, x)
    except mg.autograd.GradcheckError as error:
        assert not mg.autograd.gradcheck(squared, x, raise_exception=False)
        return str(error)


def test_gradcheck_accepts_a_right_rule():
    """2xg is the derivative of x², of first and second order."""
    assert checked(lambda g, x: g * 2 * x) is True
    assert mg.autograd.gradgradcheck(lambda x: x * x, leaf([0.7, -1.3])) is True


WRONG_RULES = {
    "999": (lambda g, x: np.full(x.shape, 999.0), "in 3 of 3 entries: at (0,) the rule gives 999, finite"),
    "a missing factor": (lambda g, x: g * x, "0.5 times the right one"),
    "the wrong sign": (lambda g, x: g * -2 * x, "the sign is wrong"),
    "g²": (lambda g, x: g * g * 2 * x, "is wrong in 3 of 3 entries"),
    "|g|": (lambda g, x: np.abs(g) * 2 * x, "is wrong in"),
    "zero": (lambda g, x: g * 0, "it is zero"),
    "NaN": (lambda g, x: g * np.nan, "not finite"),
    "another entry's": (lambda g, x: (g * 2 * x)[::-1], "is wrong in"),
    "one entry wrong": (lambda g, x: g * 2 * x * [1, 1, 1 + 1e-6], "is wrong in 1 of 3 entries: at (2,)"),
}


@pytest.mark.parametrize("name", WRONG_RULES)
def test_gradcheck_refuses_a_wrong_rule(name):
    """It names the entry, both values and the likely cause."""
    rule, message = WRONG_RULES[name]
    said = checked(rule)
    assert said is not True
    assert message in said
    assert "the gradient of input 0" in said
    assert "finite differences give" in said


def test_gradcheck_shows_both_values():
    """Both numbers of the first wrong entry stand in the sentence."""
    said = checked(lambda g, x: np.full(x.shape, 999.0))
    value = float(said.split("finite differences give ")[1].split(";")[0])
    # ± 1.4 · g, and the cotangent g lies in [1/2, 3/2].
    assert 0.7 <= abs(value) <= 2.1


def test_gradgradcheck_refuses_a_rule_that_is_right_once():
    """A rule may return the right gradient and lose its own derivative, by leaving the graph."""

    @op(x=lambda g, x: g * 2 * (x.detach() if isinstance(x, mg.Tensor) else x))
    def squared(x):
        return x * x

    x = leaf([0.7, -1.3])
    assert mg.autograd.gradcheck(squared, x)
    with pytest.raises(mg.autograd.GradcheckError):
        mg.autograd.gradgradcheck(squared, x)


def test_gradcheck_wants_float64():
    """In float32 differences say nothing at this precision."""
    with pytest.raises(ValueError, match=r"input 0 is float32: use x\.double\(\)"):
        mg.autograd.gradcheck(lambda x: x * 2, mg.ones(2, requires_grad=True))
