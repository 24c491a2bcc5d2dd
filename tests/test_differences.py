"""What differs from PyTorch on purpose: each row of the documentation's table, on both engines."""

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from parity import module, torch

import minigrad as mg


def gradient(function, *values):
    """Return a call that differentiates Σ ``function`` with respect to its first argument."""

    def call(e):
        x, *others = [e.tensor(value) for value in values]
        x.requires_grad_()
        function(e, x, *others).sum().backward()
        return x.grad.tolist()

    return call


def refused_state(e):
    """Return whether a state of which one tensor has the wrong shape leaves the other tensor alone."""
    layer = e.nn.Linear(1, 1)
    with pytest.raises(RuntimeError):
        layer.load_state_dict({"weight": e.full((1, 1), 7.0), "bias": e.ones(2)})
    return layer.weight.item() != 7


ROW = [-math.inf, -math.inf]

# The row of docs/differences.md, which gives the reason: the call, and what it returns here.
DIFFERENCES = {
    "softmax of a row that is all −inf": (lambda e: e.tensor(ROW).softmax(0).tolist(), [0, 0]),
    "gradient of softmax of a row that is all −inf": (gradient(lambda e, x: x.softmax(0), ROW), [0, 0]),
    "gradient of logsumexp of a row that is all −inf": (gradient(lambda e, x: x.logsumexp(0), ROW), [0, 0]),
    "cross-entropy with every target ignored": (
        lambda e: module(e).cross_entropy(e.ones(1, 2), e.tensor([-100])).item(),
        0,
    ),
    "gradient of scatter where an index repeats": (
        gradient(lambda e, src: e.zeros(2).scatter(0, e.tensor([0, 0]), src), [1.0, 2.0]),
        [0, 1],
    ),
    "mean, var and softmax of integers": (
        lambda e: [
            e.tensor([1, 3]).mean().item(),
            e.tensor([1, 3]).var().item(),
            e.tensor([0, 0]).softmax(0).tolist(),
        ],
        [2, 2, [0.5, 0.5]],
    ),
    "abs of booleans, bool ** bool": (
        lambda e: [abs(e.tensor([True])).tolist(), (e.tensor([False]) ** e.tensor([True])).tolist()],
        [[True], [False]],
    ),
    "slices with a negative step": (lambda e: e.arange(3)[::-1].tolist(), [2, 1, 0]),
    "an array times a tensor": (lambda e: (np.ones(1) * e.ones(1, requires_grad=True)).requires_grad, True),
    "np.exp of a tensor with a graph": (lambda e: np.exp(e.zeros(1, requires_grad=True)).requires_grad, True),
    "dtypes": (lambda e: isinstance(e.ones(1).dtype, np.dtype), True),
    "shapes": (lambda e: type(e.ones(2, 3).shape) is tuple, True),
    "names of nodes": (
        lambda e: [
            (e.eye(2).requires_grad_() @ e.eye(2)).grad_fn.name(),
            e.eye(2).requires_grad_()[0].grad_fn.name(),
        ],
        ["MatmulBackward0", "GetitemBackward0"],
    ),
    "how floats are shown": (lambda e: str(e.tensor([1 / 3])), "tensor([0.33333334])"),
    "load_state_dict that doesn't fit": (refused_state, True),
    "random numbers of a seed": (
        lambda e: [e.manual_seed(0), e.rand(1).item()][1],
        np.random.Generator(np.random.PCG64(0)).random(1, np.float32).item(),
    ),
}
UNTESTED = {"sort and argsort"}  # PyTorch promises nothing there, and so nothing that must differ


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_is_said_to_differ_differs(name):
    """What is said to differ differs, and is here what it is said to be."""
    call, expected = DIFFERENCES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert call(mg) == expected
        try:
            theirs = call(torch)
        except (RuntimeError, ValueError, TypeError):
            return
    assert theirs != expected


def test_differences_are_documented():
    """The table in docs/differences.md has these rows and no others."""
    text = (Path(__file__).parents[1] / "docs" / "differences.md").read_text(encoding="utf-8")
    table = text.partition("## Other results")[2].partition("## Not there")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")]
    assert set(rows[2:]) == {*DIFFERENCES, *UNTESTED}
