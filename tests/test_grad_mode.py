"""Recording switched on and off: by blocks, calls and decorators, thread by thread, whatever is raised inside."""

import threading

import numpy as np
import pytest
from tensors import leaf

import minigrad as mg
from minigrad.op import op, registry


def test_grad_mode_nests_and_is_restored():
    """Each block restores what it found, in whatever order they nest, and a context object may be re-entered."""
    context = mg.no_grad()
    with context:
        assert not mg.is_grad_enabled()
        with mg.enable_grad():
            assert mg.is_grad_enabled()
            with context:
                assert not mg.is_grad_enabled()
                with mg.set_grad_enabled(True):
                    assert mg.is_grad_enabled()
                assert not mg.is_grad_enabled()
            assert mg.is_grad_enabled()
        assert not mg.is_grad_enabled()
    assert mg.is_grad_enabled()


def test_set_grad_enabled_as_a_function():
    """Called alone it holds from there on, as in PyTorch."""
    mg.set_grad_enabled(False)
    assert not mg.is_grad_enabled()
    mg.set_grad_enabled(True)
    assert mg.is_grad_enabled()


@pytest.mark.parametrize("mode", [mg.no_grad, mg.inference_mode])
def test_grad_mode_as_a_decorator(mode):
    """A decorated function records nothing, also where it calls itself or raises; its name stays."""
    x = leaf(2.0)

    @mode()
    def double(depth):
        """Twice x."""
        if depth:
            return double(depth - 1)
        if depth is None:
            raise KeyError("on purpose")
        assert not mg.is_grad_enabled()
        return x * 2

    y = double(3)
    assert mg.is_grad_enabled()
    assert not y.requires_grad
    assert y.is_leaf
    assert (double.__name__, double.__doc__) == ("double", "Twice x.")
    assert (x * 2).requires_grad


@pytest.mark.parametrize("mode", [mg.no_grad, mg.enable_grad, lambda: mg.set_grad_enabled(False)])
def test_an_exception_restores_grad_mode(mode):
    """However a block ends."""
    for outer in (True, False):
        with mg.set_grad_enabled(outer):
            with pytest.raises(ZeroDivisionError), mode():
                1 / 0  # noqa: B018
            assert mg.is_grad_enabled() is outer


def test_an_exception_in_a_rule_restores_everything():
    """A rule or hook that raises leaves grad mode, NumPy's error state and the leaves' gradients as they were."""

    @op(x=lambda g: 1 / 0)
    def broken(x):
        return x

    x = leaf(1.0)
    for create_graph in (False, True):
        state = np.geterr()
        with pytest.raises(ZeroDivisionError):
            broken(x * 2).backward(create_graph=create_graph)
        assert mg.is_grad_enabled()
        assert np.geterr() == state
        assert x.grad is None


def test_a_walk_inside_no_grad():
    """``backward`` works inside ``no_grad`` for a graph recorded before, also with ``create_graph``."""
    x = leaf(3.0)
    y = x**3
    with mg.no_grad():
        (first,) = mg.autograd.grad(y, x, create_graph=True)
        assert not mg.is_grad_enabled()
    assert mg.autograd.grad(first, x)[0].item() == 18


def test_no_grad_belongs_to_its_thread():
    """While one thread is inside ``no_grad``, another records."""
    inside, leave, seen = threading.Event(), threading.Event(), []

    def other():
        with mg.no_grad():
            inside.set()
            leave.wait(30)
            seen.append(mg.is_grad_enabled())

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(30)
    recorded = (leaf(1.0) * 2).requires_grad
    leave.set()
    thread.join()
    assert recorded
    assert seen == [False]


def test_eight_threads_equal_serial():
    """Eight graphs built and walked at the same time give, to the bit, what they give one after the other."""

    def work(seed):
        rng = np.random.default_rng(seed)
        w, x = leaf(rng.normal(size=(6, 6))), mg.tensor(rng.normal(size=(4, 6)))
        for _ in range(20):
            y = registry["layer_norm"](registry["linear"](x, w, None).tanh(), (6,))
            (y.softmax(-1) * x).sum().backward()
            with mg.no_grad():
                w -= 0.1 * w.grad
        return w.tolist()

    serial = [work(seed) for seed in range(8)]
    results = [None] * 8
    start = threading.Barrier(8)

    def run(seed):
        start.wait(30)
        results[seed] = work(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == serial


def test_modes_as_decorators_with_and_without_parentheses():
    @mg.no_grad
    def bare(x):
        return x * 2

    @mg.no_grad()
    def called(x):
        return x * 2

    @mg.set_grad_enabled(False)
    def switched(x):
        return x * 2

    assert mg.is_grad_enabled(), "decorating with set_grad_enabled(False) must not switch recording off"
    x = leaf([1.0])
    for function in (bare, called, switched):
        assert not function(x).requires_grad
        assert mg.is_grad_enabled()
