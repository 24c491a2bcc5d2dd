"""Steps that compute each element by itself."""

from collections.abc import Callable

import numpy as np

from .draft import KINDS, MARGIN, Draft, Unfit, booleans, kind

# group: name: (minigrad, NumPy, domain, analytic)
UNARY = {
    "powers": {
        "square": ("mg.square({a})", "{a} * {a}", "any", True),
        "reciprocal": ("mg.reciprocal({a})", "1 / {a}", "not zero", True),
        "sqrt": ("mg.sqrt({a})", "np.sqrt({a})", "positive", True),
        "rsqrt": ("mg.rsqrt({a})", "1 / np.sqrt({a})", "positive", True),
        "cubed": ("{a} ** 3", "{a} * {a} * {a}", "any", True),
        "inverse_square": ("{a} ** -2", "1 / ({a} * {a})", "not zero", True),
        "power_of": ("1.5 ** {a}", "np.exp(np.log(1.5) * {a})", "any", True),
        "over": ("2.0 / {a}", "2.0 / {a}", "not zero", True),
    },
    "exponentials": {
        "exp": ("mg.exp({a})", "np.exp({a})", "small", True),
        "expm1": ("mg.expm1({a})", "np.expm1({a})", "small", True),
        "exp2": ("mg.exp2({a})", "np.exp2({a})", "small", True),
        "log": ("mg.log({a})", "np.log({a})", "positive", True),
        "log2": ("mg.log2({a})", "np.log({a}) / np.log(2)", "positive", True),
        "log10": ("mg.log10({a})", "np.log({a}) / np.log(10)", "positive", True),
        "log1p": ("mg.log1p({a})", "np.log(1 + {a})", "positive", True),
    },
    "trigonometry": {
        "sin": ("mg.sin({a})", "np.sin({a})", "any", True),
        "cos": ("mg.cos({a})", "np.cos({a})", "any", True),
        "tan": ("mg.tan({a})", "np.sin({a}) / np.cos({a})", "small", True),
        "asin": ("mg.asin({a})", "np.arcsin({a})", "inside 1", True),
        "acos": ("mg.acos({a})", "np.arccos({a})", "inside 1", True),
        "atan": ("mg.atan({a})", "np.arctan({a})", "any", True),
        "sinh": ("mg.sinh({a})", "(np.exp({a}) - np.exp(-{a})) / 2", "small", True),
        "cosh": ("mg.cosh({a})", "(np.exp({a}) + np.exp(-{a})) / 2", "small", True),
    },
    "activations": {
        "tanh": ("mg.tanh({a})", "np.tanh({a})", "any", True),
        "sigmoid": ("mg.sigmoid({a})", "sigmoid({a})", "any", True),
        "softplus": ("F.softplus({a})", "np.log(1 + np.exp({a}))", "any", True),
        "gelu": ("{a}.gelu()", "0.5 * {a} * (1 + erf({a} / math.sqrt(2)))", "any", False),
        "gelu_tanh": ("{a}.gelu('tanh')", "gelu_tanh({a})", "any", True),
        "erf": ("mg.erf({a})", "erf({a})", "any", False),
        "relu": ("mg.relu({a})", "larger({a}, 0.0)", "off 0", True),
    },
    "piecewise": {
        "abs": ("mg.abs({a})", "absolute({a})", "off 0", True),
        "sign": ("mg.sign({a}) * {a}", "absolute({a})", "off 0", True),
        "floor": ("{a} - mg.floor({a})", "remainder({a}, 1.0)", "off halves", True),
        "ceil": ("mg.ceil({a}) - {a}", "1.0 - remainder({a}, 1.0)", "off halves", True),
        "clamp": ("mg.clamp({a}, -0.5, 0.5)", "larger(smaller({a}, 0.5), -0.5)", "off 1/2", True),
        "nan_to_num": ("mg.nan_to_num({a})", "{a} + 0", "any", True),
    },
    "plain": {
        "scaled": ("{a} * 0.75", "{a} * 0.75", "any", True),
        "neg": ("-{a}", "-{a}", "any", True),
        "mirrored": ("1.5 - {a}", "1.5 - {a}", "any", True),
        "clone": ("{a}.clone()", "np.array({a})", "any", True),
        "contiguous": ("{a} * 0 + {a}.contiguous()", "np.array({a})", "any", True),
    },
}
LINEAR = {"neg", "scaled", "mirrored", "clone"}


def elementwise(group: str) -> Callable[[Draft], None]:
    """Return the kind of step that applies one of a group of functions of one operand."""

    def step(d: Draft) -> None:
        name = d.choose(list(UNARY[group]))
        mine, numpy, domain, analytic = UNARY[group][name]
        a = d.operand()
        x = d.inside(a, domain)
        d.emit(mine.format(a=x), numpy.format(a=x), [a], analytic=analytic, linear=name in LINEAR)

    return step


KINDS.update({group: elementwise(group) for group in UNARY})


@kind
def arithmetic(d: Draft) -> None:
    """Sum, difference, product, quotient of two that broadcast; often of one value with itself."""
    sign = d.choose("+-*/")
    a = d.operand()
    b = d.partner(a)
    y = d.inside(b, "not zero") if sign == "/" else b
    d.emit(f"{a} {sign} {y}", f"{a} {sign} {y}", [a, b], linear=sign in "+-")


@kind
def two(d: Draft) -> None:
    """Other functions of two operands that broadcast."""
    name = d.choose(["maximum", "minimum", "pow", "atan2", "remainder", "where", "lerp", "select"])
    a = d.operand()
    b = d.partner(a)
    x, y = d.values[a], d.values[b]
    apart = bool(np.all(np.abs(x - y) > MARGIN))
    if name == "maximum" and apart:
        d.emit(f"mg.maximum({a}, {b})", f"larger({a}, {b})", [a, b])
    elif name == "minimum" and apart:
        d.emit(f"mg.minimum({a}, {b})", f"smaller({a}, {b})", [a, b])
    elif name == "select" and apart:
        mine = f"mg.where({a} > {b}, {a} * 0.5, {b})"
        d.emit(mine, f"np.where(branch(np.real({a}) > np.real({b})), {a} * 0.5, {b})", [a, b])
    elif name == "pow":
        x = d.inside(a, "positive")
        d.emit(f"{x} ** {b}", f"np.exp({b} * np.log({x}))", [a, b])
    elif name == "atan2":
        x = f"({a} * {a} + 0.5)"
        d.emit(f"mg.atan2({b}, {x})", f"np.arctan({b} / {x})", [a, b])
    elif name == "remainder" and np.all(np.abs(y) > 0.4):
        quotient = x / y
        if not np.all(np.abs(quotient - np.rint(quotient)) > 2 * MARGIN):
            raise Unfit
        d.emit(f"{a} % {b}", f"remainder({a}, {b})", [a, b])
    elif name == "where":
        shape = np.broadcast_shapes(x.shape, y.shape)
        mask = booleans(d, shape)
        d.emit(f"mg.where(mg.tensor({mask}), {a}, {b})", f"np.where({mask}, {a}, {b})", [a, b])
    elif name == "lerp":
        d.emit(f"mg.lerp({a}, {b}, 0.25)", f"0.75 * {a} + 0.25 * {b}", [a, b])
    else:
        raise Unfit
