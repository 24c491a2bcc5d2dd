"""What a graph keeps alive, and for how long.

A node points to the nodes of its inputs and nothing points back, so memory goes when the last reference goes; the
tests hold that with the garbage collector off.
"""

import gc
import weakref

import numpy as np
import pytest
from tensors import leaf

import minigrad as mg
from minigrad.graph import Node, TensorBase
from minigrad.op import registry


@pytest.fixture
def no_collector():
    """Switch the garbage collector off: what is freed is freed by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_memory_is_flat_over_a_thousand_steps(no_collector):
    """A training step leaves nothing behind: after 1,000 there are as many tensors and nodes as after 2."""
    rng = np.random.default_rng(0)
    w1, w2 = leaf(rng.normal(size=(4, 3))), leaf(rng.normal(size=(2, 4)))
    x, target = mg.tensor(rng.normal(size=(5, 3))), mg.tensor(rng.integers(0, 2, 5))

    def step():
        hidden = registry["linear"](x, w1, None).relu()
        loss = registry["cross_entropy"](registry["linear"](hidden, w2, None), target)
        loss.backward()
        with mg.no_grad():
            for w in (w1, w2):
                w -= 0.1 * w.grad
                w.grad = None
        return loss.item()

    def alive():
        return sum(issubclass(type(thing), TensorBase | Node) for thing in gc.get_objects())

    losses = [step(), step()]
    before = alive()
    losses += [step() for _ in range(998)]
    assert alive() == before
    assert losses[-1] < losses[0]


def test_a_graph_holds_no_cycles(no_collector):
    """Whatever a graph holds is freed by reference counts: the collector finds nothing, walked or not."""

    def build():
        x = leaf([[0.5, -1.0], [2.0, 0.3]])
        y = (x @ x.T).softmax(-1)
        a, b = y.split(1)
        return x, mg.cat([a, b.exp()])[[0, 0, 1]].var()

    gc.collect()
    for use in (
        lambda x, y: None,
        lambda x, y: y.backward(),
        lambda x, y: mg.autograd.grad(y, x, create_graph=True),
        lambda x, y: y.retain_grad(),
        lambda x, y: y.register_hook(lambda g: 2 * g),
    ):
        use(*build())
        assert gc.collect() == 0


class Watched(np.ndarray):
    """An array that can be referred to weakly, so that a test sees it go."""


def test_saved_values_go_as_the_walk_proceeds():
    """A node lets go of what it saved when the walk has passed it, though the output is still there."""
    x = leaf([1.0, 2.0])
    factor = Watched(2)  # two elements, of whatever value
    factor[:] = 2.0, -3.0
    watch = weakref.ref(factor)
    y = registry["mul"](x, factor).sum()
    del factor
    assert watch() is not None
    y.backward()
    assert watch() is None
    assert y.grad_fn.saved is None


SAVED = {
    # operation: what its node keeps of operands x and y and the output
    "add": (lambda x, y: x + y, set()),
    "sub": (lambda x, y: x - y, set()),
    "neg": (lambda x, y: -x, set()),
    "mul": (lambda x, y: x * y, {"x", "y"}),
    "mul by a constant": (lambda x, y: x * y.detach(), {"y"}),
    "exp": (lambda x, y: x.exp(), {"out"}),
    "tanh": (lambda x, y: x.tanh(), {"out"}),
    "relu": (lambda x, y: x.relu(), {"out"}),
    "sin": (lambda x, y: x.sin(), {"x"}),
    "matmul": (lambda x, y: x @ y, {"x", "y"}),
    "sum": (lambda x, y: x.sum(0), set()),
    "reshape": (lambda x, y: x.reshape(-1), set()),
    "cat": (lambda x, y: mg.cat([x, y]), set()),
    "softmax": (lambda x, y: x.softmax(-1), {"out"}),
    "index": (lambda x, y: x[[0, 0]], set()),
}


@pytest.mark.parametrize("name", SAVED)
def test_a_node_saves_what_its_rules_name(name):
    """A node keeps no more than its rules name: an addition no array at all, an exponential only its result."""
    function, expected = SAVED[name]
    x, y = leaf([[0.5, -1.0], [2.0, 0.3]]), leaf([[1.5, 0.4], [-0.7, 1.0]])
    out = function(x, y)
    kept = [value for value in out.grad_fn.saved if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
    owners = {"x": x, "y": y, "out": out}
    found = {who for who, t in owners.items() if any(np.shares_memory(t._data, value) for value in kept)}
    assert found == expected


def test_an_unused_operand_of_an_addition_goes():
    """An addition refers to the nodes of its operands, not to their values."""
    x = leaf(np.ones(1000))
    big = x * 2
    watch = weakref.ref(big)
    data = weakref.ref(big._data)
    y = big + 1
    del big
    assert watch() is None
    assert data() is None
    y.backward(mg.ones(1000, dtype=mg.float64))
    assert x.grad.tolist() == [2] * 1000
