"""What dtype a result has, and a gradient: float32 stays float32."""

import math

import numpy as np
import pytest
from tensors import leaf

import minigrad as mg
from minigrad.dtypes import strongest

F32, F64 = np.float32, np.float64
x32 = mg.tensor([1.0, 2.0, 3.0])
x64 = mg.tensor([1.0, 2.0, 3.0], dtype=mg.float64)
i64, i32, b1 = mg.tensor([1, 2, 3]), mg.tensor([1, 2, 3], dtype=mg.int32), mg.tensor([True, False, True])

# What stands beside a tensor, and the dtype that the two give together, whichever comes first.
OPERANDS = {
    "float32 and a Python float": (x32, 2.5, F32),
    "float32 and a Python int": (x32, 2, F32),
    "float32 and a bool": (x32, True, F32),
    "float32 and np.float64(2)": (x32, np.float64(2), F32),
    "float32 and np.sqrt(64)": (x32, np.sqrt(64), F32),
    "float32 and np.int64(2)": (x32, np.int64(2), F32),
    "float32 and a 0-d array": (x32, np.array(2.5), F32),
    "float32 and a 0-d float64 tensor": (x32, mg.tensor(2.5, dtype=mg.float64), F32),
    "float32 and an int64 tensor": (x32, i64, F32),
    "float32 and a bool tensor": (x32, b1, F32),
    "float32 and an int64 array": (x32, np.array([1, 2, 3]), F32),
    "float32 and a float32 array": (x32, np.ones(3, F32), F32),
    "float32 and a float64 array": (x32, np.ones(3), F64),  # an array keeps its dtype
    "float32 and a float64 tensor": (x32, x64, F64),
    "0-d float32 and a Python float": (mg.tensor(1.0), 2.5, F32),
    "0-d float32 and np.float64(2)": (mg.tensor(1.0), np.float64(2), F32),
    "float64 and a Python float": (x64, 2.5, F64),
    "float64 and a 0-d float32 tensor": (x64, mg.tensor(1.0), F64),
    "int64 and a Python float": (i64, 2.5, F32),  # the default dtype
    "int64 and a Python int": (i64, 2, np.int64),
    "int32 and a Python int": (i32, 2, np.int32),
    "int32 and int64": (i32, i64, np.int64),
    "int64 and 0-d float64": (i64, mg.tensor(2.5, dtype=mg.float64), F64),
    "bool and a Python int": (b1, 2, np.int64),
    "bool and int32": (b1, i32, np.int32),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_dtype_of_two_operands(name):
    """Arrays with dimensions decide; what has none only lends its kind, so a float32 network stays float32."""
    x, y, dtype = OPERANDS[name]
    for operation in (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b):
        left, right = operation(x, y), operation(y, x)
        assert isinstance(left, mg.Tensor)
        assert isinstance(right, mg.Tensor)
        assert left.dtype == right.dtype == dtype
    assert mg.maximum(x, y).dtype == dtype


@pytest.mark.parametrize("name", [name for name in OPERANDS if OPERANDS[name][0].dtype.kind == "f"])
def test_gradient_has_the_dtype_of_its_tensor(name):
    """Whatever a tensor meets on the way, in either order, its gradient has its own dtype, shape and graph."""
    x, y, _ = OPERANDS[name]
    for operation in (lambda a, b: a * b, lambda a, b: b * a, lambda a, b: a / b, lambda a, b: b - a):
        start = x.detach().clone().requires_grad_()
        out = operation(start, y)
        out.backward(mg.ones_like(out) * -2)
        assert start.grad.dtype == start.dtype
        assert start.grad.shape == start.shape


def test_gradients_across_dtypes_are_recorded_too():
    """With ``create_graph`` a product of float32 and float64 has the gradients that it has without."""
    x, y = mg.tensor([1.0, 2.0], requires_grad=True), leaf([3.0, -4.0])
    gx, gy = mg.autograd.grad(x * y, [x, y], mg.tensor([2.0, -1.0], dtype=mg.float64), create_graph=True)
    assert (gx.tolist(), gx.dtype) == ([6, 4], F32)
    assert (gy.tolist(), gy.dtype) == ([2, -2], F64)
    assert mg.autograd.grad(gx, y, mg.tensor([1.0, 5.0]))[0].tolist() == [2, -5]


def test_float32_stays_float32_through_sums():
    """Python's ``sum`` starts from the int 0; mean and max divide and compare: all of it stays float32."""
    x = mg.tensor([1.0, 2.0, 2.0], requires_grad=True)
    total = sum([x, x], 0)
    loss = total.mean() + x.max() + x.var() + x.norm() + sum(x)
    assert loss.dtype == F32
    loss.backward(mg.tensor(-2.0))
    assert x.grad.dtype == F32
    # d/dx: 2/3, then ties at 2, then 2 (x − mean)/(n − 1) = (−2/3, 1/3, 1/3), then x/3, then 1.
    expected = -2 * np.array([2 / 3 - 2 / 3 + 1 / 3 + 1, *[2 / 3 + 1 / 2 + 1 / 3 + 2 / 3 + 1] * 2])
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("operation", [lambda a, t: a * t, lambda a, t: t * a, lambda a, t: np.add(a, t)])
def test_numpy_operands_keep_the_graph(operation):
    """``np.ones(3) * t`` is a Tensor with its graph, not an array of tensors, in both orders."""
    t = leaf([1.0, 2.0, 3.0])
    y = operation(np.ones(3), t)
    assert type(y) is mg.Tensor
    assert mg.autograd.grad(y, t, mg.tensor([2.0, -3.0, 1.0]))[0].tolist() == [2, -3, 1]


RESULTS = {
    "int / int": (lambda: i64 / i64, F32),
    "int / 2": (lambda: i64 / 2, F32),
    "bool / bool": (lambda: b1 / mg.tensor([True] * 3), F32),
    "1 / int": (lambda: 1 / i64, F32),
    "exp of ints": (lambda: i64.exp(), F32),
    "sqrt of int32": (lambda: i32.sqrt(), F32),
    "mean of ints": (lambda: i64.mean(), F32),
    "softmax of ints": (lambda: i64.softmax(0), F32),
    "sum of bools": (lambda: b1.sum(), np.int64),
    "sum of int32": (lambda: i32.sum(), np.int64),
    "sum of float32": (lambda: x32.sum(), F32),
    "sum with a dtype": (lambda: x32.sum(dtype=mg.float64), F64),
    "int // int": (lambda: i64 // i64, np.int64),
    "int ** 2": (lambda: i64**2, np.int64),
    "comparison": (lambda: x32 > x64, np.bool_),
    "argmax": (lambda: x32.argmax(), np.int64),
    "where with numbers": (lambda: mg.where(b1, x32, 0), F32),
    "where of two numbers": (lambda: mg.where(b1, 1.0, 0.0), F32),
    "where of two whole numbers": (lambda: mg.where(b1, 1, 0), np.int64),
    "where of two numbers, as a mask": (lambda: x32 * mg.where(b1, 1, 0.5), F32),
    "where with np.float64": (lambda: mg.where(b1, np.float64(1), x32), F32),
    "masked_fill": (lambda: x32.masked_fill(b1, -math.inf), F32),
    "clamp": (lambda: x32.clamp(0, np.float64(2)), F32),
    "cat of float32 and int": (lambda: mg.cat([x32, i64]), F32),
    "matmul of float32 and float64": (lambda: x32 @ x64, F64),
    "x.double()": (lambda: x32.double(), F64),
    "x.to(int)": (lambda: x32.to(mg.int64), np.int64),
    "float32 ** 0.5": (lambda: x32**0.5, F32),
    "2.0 ** float32": (lambda: 2.0**x32, F32),
    "float32 % 2.0": (lambda: x32 % 2.0, F32),
}


@pytest.mark.parametrize("name", RESULTS)
def test_dtype_of_a_result(name):
    """Integers become floats of the default dtype where the result is one; sums of integers are int64."""
    function, dtype = RESULTS[name]
    assert function().dtype == dtype


def test_sum_of_bools_counts():
    """A sum of booleans is how many are true, not whether some are."""
    assert mg.tensor([True, True, False]).sum().item() == 2


def test_the_default_dtype_is_that_of_python_floats():
    """Python floats, ``zeros`` and divided integers follow ``set_default_dtype``; arrays keep theirs."""
    mg.set_default_dtype(mg.float64)
    assert mg.tensor(1.5).dtype == mg.zeros(2).dtype == (i64 / 2).dtype == mg.randn(2).dtype == F64
    assert mg.tensor(np.ones(2, F32)).dtype == F32
    with pytest.raises(TypeError, match="must be a floating dtype, not int64"):
        mg.set_default_dtype(mg.int64)


def test_cast_returns_the_gradient_to_its_dtype():
    """A gradient passes through a change of dtype and comes back in the tensor's own."""
    x = mg.tensor([1.5, -2.0], requires_grad=True)
    y = x.double() * 3
    assert y.dtype == F64
    y.backward(mg.tensor([1.0, -1.0], dtype=mg.float64))
    assert x.grad.dtype == F32
    assert x.grad.tolist() == [3, -3]


def test_integers_have_no_gradient():
    """Only a floating tensor can require a gradient: the error says what to do; a cast to int ends the graph."""
    for make in (
        lambda: mg.tensor([1, 2], requires_grad=True),
        lambda: mg.tensor([1, 2]).requires_grad_(),
        lambda: mg.zeros(2, dtype=mg.int64, requires_grad=True),
        lambda: mg.tensor(True, requires_grad=True),
    ):
        with pytest.raises(RuntimeError, match=r"only floating tensors can require a gradient.*use x\.float\(\)"):
            make()
    x = mg.tensor([1.5, 2.5], requires_grad=True)
    assert not x.long().requires_grad
    assert not x.bool().requires_grad
    assert not (x > 2).requires_grad
    assert not x.argmax().requires_grad


@pytest.mark.parametrize("number", [2.0, np.float64(2.0), np.array(2.0)], ids=["float", "scalar", "array"])
def test_a_number_among_tensors_is_brought_to_their_dtype(number):
    """In einsum and stack a number counts as weak, as it does in arithmetic: float32 stays float32."""
    x = mg.tensor([1.0, 3.0], requires_grad=True)
    y = mg.einsum("i,->i", x, number)
    assert y.dtype == np.float32
    y.backward(mg.tensor([1.0, -1.0]))
    assert x.grad.tolist() == [2.0, -2.0]
    assert mg.stack([x.sum(), number]).dtype == np.float32


def test_what_is_remembered_of_dtypes_does_not_grow_with_the_number_of_tensors():
    """Joining ever longer lists keeps nothing of each length."""
    x, y = mg.ones(2), mg.ones(2, dtype=mg.float64)
    mg.stack([x, y])
    before = strongest.cache_info().currsize
    for n in range(3, 20):
        assert mg.stack([x, *[y] * n]).dtype == np.float64
    assert strongest.cache_info().currsize == before
