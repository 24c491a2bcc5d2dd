"""How to draw arguments of elementwise operations: each where it is defined and smooth."""

import numpy as np
from hypothesis import strategies as st
from strategies import (
    array_of,
    broadcastable,
    broadcastable_pairs,
    generators,
    laid_out,
    on_grid,
    shapes,
    two_sided,
)

import minigrad as mg
from minigrad.op import Op, numpy_functions, registry
from minigrad.rules.elementwise import Elementwise

from .problem import Problem, binary, method, unary


def positive(rng, shape):
    """Return numbers in [1/4, 2]."""
    return np.abs(two_sided(rng, shape))


def inside_one(rng, shape):
    """Return numbers of both signs in [−0.85, 0.85], where arc sine and arc cosine are smooth."""
    return two_sided(rng, shape, 0.1, 0.85)


def between_integers(rng, shape):
    """Return numbers at least 1/10 away from any integer and any half, where rounding jumps."""
    return rng.integers(-3, 3, shape) + rng.choice([0.0, 0.5], shape) + rng.uniform(0.1, 0.4, shape)


@st.composite
def powers(draw):
    """xʸ: positive bases with any exponent, and bases of both signs with constant whole exponents."""
    form = draw(st.sampled_from([lambda x, y: x**y, mg.pow, np.power]))
    rng = draw(generators())
    x_shape, y_shape = draw(broadcastable_pairs())
    match draw(st.sampled_from(["both", "number", "whole", "array of whole", "base"])):
        case "both":
            return Problem(form, [positive(rng, x_shape), two_sided(rng, y_shape)])
        case "number":
            y = draw(st.sampled_from([0.5, -1.5, np.float64(2.5)]))
            return Problem(lambda x: form(x, y), [draw(laid_out(positive(rng, x_shape)))])
        case "whole":
            y = draw(st.sampled_from([-2, -1, 0, 1, 2, 3, 2.0]))
            return Problem(lambda x: form(x, y), [draw(array_of(x_shape))])
        case "array of whole":
            y = rng.integers(-2, 4, y_shape).astype(float)
            return Problem(form, [draw(array_of(x_shape))], [y])
        case _:
            return Problem(lambda y: form(1.75, y), [draw(array_of(y_shape))])


@st.composite
def clamps(draw):
    """x limited to bounds that are numbers, tensors or missing; none within 1/16 of an element of x."""
    rng = draw(generators())
    shape = draw(shapes(max_size=12))
    x = draw(laid_out(on_grid(rng, shape)))
    low = on_grid(rng, draw(broadcastable(shape)), 1 / 8)
    high = on_grid(rng, draw(broadcastable(shape)), 1 / 16)
    return draw(
        st.sampled_from(
            [
                Problem(lambda x: x.clamp(-0.375, 0.625), [x]),
                Problem(lambda x: x.clamp(min=0.125), [x]),
                Problem(lambda x: np.clip(x, None, -0.375), [x]),
                Problem(lambda x: mg.clamp(x, max=0.125), [x]),
                Problem(lambda x, low, high: mg.clamp(x, low, high), [x, low, high]),
                Problem(lambda x, low: x.clamp(low, 0.4375), [x, low]),
                Problem(lambda x, high: x.clamp(-0.375, high), [x, high]),
                Problem(lambda x, low: x.clamp(min=low), [x, low]),
                Problem(lambda x, high: x.clamp(max=high), [x, high]),
            ]
        )
    )


@st.composite
def choices(draw):
    """where(condition, x, y), the three of different shapes, with a number in either place."""
    rng = draw(generators())
    x_shape, y_shape = draw(broadcastable_pairs())
    x, y = draw(array_of(x_shape)), draw(array_of(y_shape))
    condition = np.asarray(rng.random(draw(broadcastable(np.broadcast_shapes(x_shape, y_shape)))) < 0.5)
    if draw(st.booleans()):
        condition = mg.from_numpy(condition)
    wide = mg.from_numpy(rng.random((3, *x_shape)) < 0.5)
    return draw(
        st.sampled_from(
            [
                Problem(lambda x, y: mg.where(condition, x, y), [x, y]),
                Problem(lambda x, y: np.where(condition, x, y), [x, y]),
                Problem(lambda x, y: x.where(condition, y), [x, y]),
                Problem(lambda x: mg.where(wide, x, 0), [x]),
                Problem(lambda x: mg.where(wide, -0.5, x), [x]),
            ]
        )
    )


@st.composite
def fills(draw):
    """masked_fill with a number, or with a 0-d tensor that is differentiated too."""
    rng = draw(generators())
    shape = draw(shapes(max_size=12))
    x = draw(array_of(shape))
    mask = mg.from_numpy(np.asarray(rng.random(draw(broadcastable(shape))) < 0.5))
    if draw(st.booleans()):
        return Problem(lambda x: x.masked_fill(mask, -1.5), [x])
    return Problem(lambda x, value: mg.masked_fill(x, mask, value), [x, two_sided(rng, ())])


@st.composite
def remainders(draw):
    """x mod y with x/y at least 1/5 away from any integer, where the remainder jumps."""
    rng = draw(generators())
    shape = draw(shapes(max_size=12))
    y = rng.uniform(1, 1.5, draw(broadcastable(shape))) * rng.choice([-1.0, 1.0])
    x = y * (rng.integers(-3, 3, shape) + rng.uniform(0.2, 0.8, shape))
    return draw(
        st.sampled_from(
            [
                Problem(lambda x, y: x % y, [draw(laid_out(x, repeat=False)), y]),
                Problem(np.remainder, [x, y]),
                Problem(lambda x: x % 1.25, [1.25 * (np.floor(x) + rng.uniform(0.2, 0.8, shape))]),
                Problem(lambda y: 7.3 % y, [rng.uniform(2.5, 3.5, shape)]),
            ]
        )
    )


grid_pair = (on_grid, lambda rng, shape: on_grid(rng, shape, 1 / 8))


# Where an elementwise operation is defined and smooth, if that is not everywhere off 0.
NUMBERS = {
    **dict.fromkeys(["log", "log2", "log10", "log1p", "sqrt", "rsqrt"], positive),
    **dict.fromkeys(["asin", "acos"], inside_one),
    **dict.fromkeys(["floor", "ceil", "trunc", "round"], between_integers),
    "tan": lambda rng, shape: two_sided(rng, shape, 0.25, 1.2),
}


def declared(operation):
    """Draw arguments for an elementwise operation, in all spellings that its declaration has given it.

    Those are the operation as a function, NumPy's functions of that meaning, and a method of Tensor.
    """
    own = [function for function, meant in numpy_functions.items() if meant is operation]
    forms = [operation, *own, method(lambda x, *y: getattr(x, operation.name)(*y))]
    numbers = NUMBERS.get(operation.name, two_sided)
    if len(operation.operands) == 1:
        return unary(*forms, numbers=numbers)
    return binary(*forms, numbers=(numbers, numbers))


ELEMENTWISE = {
    operation.name: operation
    for family in Elementwise.__mro__
    for operation in vars(family).values()
    if isinstance(operation, Op) and operation.rules
}


CASES = {
    # what is declared, and in other words what has other spellings, or kinks
    **{name: declared(operation) for name, operation in ELEMENTWISE.items() if len(operation.operands) < 3},
    "add": binary(lambda x, y: x + y, mg.add, np.add, method(lambda x, y: x.add(y))),
    "sub": binary(lambda x, y: x - y, mg.sub, np.subtract, method(lambda x, y: x.sub(y))),
    "mul": binary(lambda x, y: x * y, mg.mul, np.multiply, method(lambda x, y: x.mul(y))),
    "div": binary(lambda x, y: x / y, mg.div, np.divide, method(lambda x, y: x.div(y))),
    "neg": unary(lambda x: -x, mg.neg, np.negative),
    "pow": powers(),
    "abs": unary(abs, mg.abs, np.abs, np.fabs),
    "maximum": binary(mg.maximum, np.maximum, numbers=grid_pair, scalars=(0.0625, np.float64(-0.3125))),
    "minimum": binary(mg.minimum, np.minimum, numbers=grid_pair, scalars=(0.0625, np.float64(-0.3125))),
    "clamp": clamps(),
    "where": choices(),
    "masked_fill": fills(),
    "remainder": remainders(),
    "contiguous": unary(registry["contiguous"]),
    "identity": unary(registry["identity"]),
    "cast": unary(lambda x: registry["cast"](x, x.dtype)),
}
