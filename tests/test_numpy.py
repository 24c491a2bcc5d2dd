"""NumPy's functions given Tensors: the values that they give for arrays, as Tensors that keep the graph."""

import numpy as np
import pytest

import minigrad as mg

# f(x, y) for x of (3, 4) in (−1, 1) and y of (3, 4), both differentiated; called with arrays and with Tensors.
ONE = """exp expm1 exp2 sin cos tan arcsin arccos arctan sinh cosh tanh negative absolute fabs square reciprocal
    sign floor ceil trunc rint sum mean prod max min amax amin var std ravel transpose copy nan_to_num"""
LOGARITHMS = "log log2 log10 log1p sqrt"
TWO = "add subtract multiply divide maximum minimum arctan2 kron outer remainder"
FUNCTIONS = {
    **{name: (lambda x, y, name=name: getattr(np, name)(x)) for name in ONE.split()},
    **{name: (lambda x, y, name=name: getattr(np, name)(x + 2)) for name in LOGARITHMS.split()},
    **{name: (lambda x, y, name=name: getattr(np, name)(x, y)) for name in TWO.split()},
    "prod over an axis": lambda x, y: np.prod(x, axis=1, keepdims=True),
    "cumprod": lambda x, y: np.cumprod(x, axis=0),
    "cumsum": lambda x, y: np.cumsum(x, axis=-1),
    "power": lambda x, y: np.power(x + 2, y),
    "round": lambda x, y: np.round(x, 1),
    "clip": lambda x, y: np.clip(x, -0.5, 0.5),
    "where": lambda x, y: np.where(np.array([True, False, True, False]), x, y),
    "matmul": lambda x, y: np.matmul(x, np.transpose(y)),
    "dot": lambda x, y: np.dot(x, np.transpose(y)),
    "tensordot": lambda x, y: np.tensordot(x, y, axes=([0, 1], [0, 1])),
    "einsum": lambda x, y: np.einsum("ij,kj->ik", x, y),
    "repeat": lambda x, y: np.repeat(x, 2, axis=0),
    "tile": lambda x, y: np.tile(x, (2, 1)),
    "concatenate": lambda x, y: np.concatenate([x, y], axis=1),
    "stack": lambda x, y: np.stack([x, y], axis=-1),
    "hstack": lambda x, y: np.hstack([x, y]),
    "vstack": lambda x, y: np.vstack([x, y]),
    "meshgrid": lambda x, y: np.stack(np.meshgrid(x[0], y[0])),
    "diag": lambda x, y: np.diag(x) + np.diag(y[0, :3]),
    "diagonal": lambda x, y: np.diagonal(x, offset=1, axis1=0, axis2=1),
    "trace": lambda x, y: np.trace(x),
    "moveaxis": lambda x, y: np.moveaxis(x, 0, 1),
    "swapaxes": lambda x, y: np.swapaxes(x, 0, 1),
    "expand_dims": lambda x, y: np.expand_dims(x, 0),
    "squeeze": lambda x, y: np.squeeze(x[:1]),
    "broadcast_to": lambda x, y: np.broadcast_to(x, (2, 3, 4)),
    "reshape": lambda x, y: np.reshape(x, (2, 6)),
    "flip": lambda x, y: np.flip(x, 1),
    "roll": lambda x, y: np.roll(x, 1, axis=0),
    "tril": lambda x, y: np.tril(x, -1),
    "split": lambda x, y: np.split(x, 2, axis=1)[1],
    "take_along_axis": lambda x, y: np.take_along_axis(x, np.array([[0, 0], [1, 2], [3, 3]]), axis=1),
    "a number first": lambda x, y: np.float64(2) * x + np.ones(4) - y,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_numpy_function_gives_its_values_and_keeps_the_graph(name, rng):
    """Values and shape are NumPy's, the result is a Tensor, and its gradient arrives."""
    arrays = [rng.uniform(0.2, 0.9, (3, 4)) * rng.choice([-1.0, 1.0], (3, 4)) for _ in range(2)]
    leaves = [mg.tensor(array, requires_grad=True) for array in arrays]
    out = FUNCTIONS[name](*leaves)
    assert isinstance(out, mg.Tensor)
    expected = np.asarray(FUNCTIONS[name](*arrays))
    assert out.shape == expected.shape
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-14)
    out.backward(mg.ones_like(out))
    assert leaves[0].grad is not None


WITHOUT_GRADIENT = {
    "isclose": lambda x: np.isclose(x, 0.5),
    "isfinite": lambda x: np.isfinite(x),
    "count_nonzero": lambda x: np.count_nonzero(x),
    "argmax": lambda x: np.argmax(x, axis=1),
    "argsort": lambda x: np.argsort(x),
    "logical_not": lambda x: np.logical_not(x),
    "all": lambda x: np.all(x, axis=0),
    "greater": lambda x: np.greater(x, 0),
    "shape": lambda x: np.shape(x),
    "size": lambda x: np.size(x),
    "zeros_like": lambda x: np.zeros_like(x),
}


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_a_numpy_function_without_a_gradient_gives_its_values_alone(name, rng):
    """What cannot be differentiated gives NumPy's values and no graph."""
    array = rng.normal(size=(3, 4))
    out = WITHOUT_GRADIENT[name](mg.tensor(array, requires_grad=True))
    assert not getattr(out, "requires_grad", False)
    np.testing.assert_array_equal(np.asarray(out), WITHOUT_GRADIENT[name](array))


def test_numpys_own_keywords_and_defaults():
    """Where NumPy's arguments differ from PyTorch's, NumPy's names and defaults hold in NumPy's functions."""
    t = mg.tensor([[3.0, -1.0, 2.0], [0.5, 4.0, -2.0]], dtype=mg.float64, requires_grad=True)
    a = t.detach().numpy()
    for function in (
        lambda x: np.tril(x, k=1),
        lambda x: np.triu(x, -1),
        lambda x: np.cumsum(x),
        lambda x: np.cumsum(x, axis=0),
        lambda x: np.cumprod(x, axis=1),
        lambda x: np.sort(x),
        lambda x: np.sort(x, axis=None),
        lambda x: np.flip(x, axis=0),
        lambda x: np.roll(x, 1, axis=1),
        lambda x: np.sum(x, axis=0, out=None, keepdims=True),
        lambda x: np.linalg.norm(x),
        lambda x: np.linalg.norm(x, axis=1),
        lambda x: np.linalg.norm(x, 1, axis=0, keepdims=True),
    ):
        result = function(t)
        assert result.requires_grad
        np.testing.assert_allclose(result.detach().numpy(), function(a), rtol=1e-15)
        assert mg.autograd.gradcheck(function, t)
    assert np.allclose(t, a)
    assert np.array_equal(a, t)
    np.testing.assert_array_equal(np.full_like(t, 2), np.full_like(a, 2))
    with pytest.raises(TypeError, match=r"np\.linalg\.inv has no derivative here"):
        np.linalg.inv(t)
    with pytest.raises(TypeError, match="ord=2"):
        np.linalg.norm(t, 2)
