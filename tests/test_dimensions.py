"""Dimensions and indices at the edge of what there is, and past it."""

import numpy as np
import pytest
from strategies import two_sided
from tensors import leaf

import minigrad as mg


def test_rows_of_an_empty_table():
    x = leaf(np.zeros((0, 3)))
    (found,) = mg.autograd.grad(x[np.zeros(0, int)].sum(), x)
    assert found.shape == (0, 3)


def test_small_unsigned_indices_do_not_overflow():
    """Row 99 of four columns begins at position 396, which a uint8 can't count."""
    x = leaf(np.zeros((100, 4)))
    (found,) = mg.autograd.grad(x[np.array([99, 99, 1], np.uint8)].sum(), x)
    assert [row.tolist() for row in found.numpy()[[1, 98, 99]]] == [[1] * 4, [0] * 4, [2] * 4]
    assert found.sum().item() == 12


@pytest.mark.parametrize("dims", [(-2, -1), (-1, -2), (-1, 0), (0, -1)])
def test_diagonals_of_dimensions_counted_from_the_end(dims, rng):
    x = leaf(two_sided(rng, (3, 4, 3)))
    diagonal = x.diagonal(0, *dims)
    np.testing.assert_array_equal(diagonal.detach().numpy(), np.diagonal(x.detach().numpy(), 0, *dims))
    g = two_sided(rng, diagonal.shape)
    expected = np.zeros(x.shape)
    for i in range(diagonal.shape[-1]):
        place = [i if d in (dims[0] % 3, dims[1] % 3) else slice(None) for d in range(3)]
        expected[tuple(place)] = g[..., i]
    (found,) = mg.autograd.grad(diagonal, x, mg.from_numpy(g))
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("dim", [2, -3, 5])
def test_a_dimension_that_is_not_there(dim):
    x = leaf(np.ones((2, 1)))
    for function in (lambda: x.squeeze(dim), lambda: x.movedim(dim, 0), lambda: x.norm(2, dim)):
        with pytest.raises(IndexError):
            function()
    for dim in (1, -2):
        for y in (leaf([1.0]), leaf(1.0)):
            with pytest.raises(IndexError):
                y.squeeze(dim)
    assert x.squeeze(-1).shape == (2,)
    assert x.movedim(-2, 1).shape == (1, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mg.ones(()).unbind(), IndexError, "0-d tensor"),
        (lambda: mg.ones(2, 3).unbind(5), IndexError, "5"),
        (lambda: mg.ones(2, 3).log_softmax(5), IndexError, "axis 5"),
        (lambda: mg.ones(0, 3).log_softmax(5), IndexError, "axis 5"),
        (lambda: mg.randperm(-1), RuntimeError, "at least 0, not -1"),
        (lambda: mg.nn.BatchNorm1d(4)(mg.ones(2, 3)), RuntimeError, "3 channels got a vector of 4"),
    ],
)
def test_what_there_is_not_is_named(call, error, message):
    """A dimension, a number or a channel that doesn't exist stands in the message."""
    with pytest.raises(error, match=message):
        call()
