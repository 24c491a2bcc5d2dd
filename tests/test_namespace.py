"""What a program written for PyTorch finds besides operations, and what it is told is not there."""

import numpy as np
import pytest

import minigrad as mg

REFUSED = {
    "complex zeros": (lambda: mg.zeros(2, dtype=np.complex64), TypeError, "complex64 is not supported"),
    "a complex cast": (lambda: mg.ones(2).to(complex), TypeError, "complex128 is not supported"),
    "to the GPU": (lambda: mg.ones(2).to("cuda"), RuntimeError, "computes on the CPU"),
    "cuda()": (lambda: mg.ones(2).cuda(), RuntimeError, "computes on the CPU"),
    "a module to the GPU": (lambda: mg.nn.Linear(1, 1).cuda(), RuntimeError, "computes on the CPU"),
    "a GPU by name": (lambda: mg.device("cuda:0"), RuntimeError, "computes on the CPU"),
    "zeros on a GPU": (lambda: mg.zeros(2, device="mps"), RuntimeError, "computes on the CPU"),
    "out= of a ufunc": (lambda: np.exp(mg.ones(2), out=np.ones(2)), TypeError, "doesn't take out="),
    "where= of a ufunc": (lambda: np.exp(mg.ones(2), where=np.array(True)), TypeError, "doesn't take where="),
    "out= of ours": (lambda: mg.exp(mg.ones(2), out=mg.ones(2)), TypeError, "no argument 'out'"),
    "a method of a ufunc": (lambda: np.add.reduce(mg.ones(2)), TypeError, r"np\.add\.reduce .*detach"),
    "a NumPy function without a rule": (lambda: np.linalg.inv(mg.eye(2)), TypeError, r"np\.linalg\.inv .*detach"),
    "an array of what has a graph": (
        lambda: np.asarray(mg.ones(2, requires_grad=True)),
        RuntimeError,
        r"x\.detach\(\)\.numpy\(\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_says_so(name):
    """What is not there says so, and what to use instead."""
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call()


def test_the_cpu_is_the_one_device():
    """The CPU has a name, which compares with strings; there is no other."""
    cpu = mg.device("cuda" if mg.cuda.is_available() else "cpu")
    x = mg.zeros(2, device=cpu).to(cpu).to("cpu")
    assert x.device == "cpu" == cpu == mg.device("cpu", 0)
    assert (x.device.type, repr(cpu), str(cpu), x.is_cuda, mg.cuda.device_count()) == (
        "cpu",
        "device(type='cpu')",
        "cpu",
        False,
        0,
    )


def test_backends_can_be_set_up_without_effect():
    """Programs that set up cuDNN or look for Metal run on, without either."""
    mg.backends.cudnn.deterministic = True
    mg.backends.cuda.matmul.allow_tf32 = True
    assert not mg.backends.mps.is_available()
    mg.cuda.manual_seed_all(0)


def test_print_options_hold_for_tensors_alone():
    """Digits as chosen; NumPy's own printing stays as it was."""
    mg.set_printoptions(precision=3, sci_mode=False)
    assert repr(mg.tensor([1 / 3, 1e-7])) == "tensor([0.333, 0.   ])"
    assert str(np.array([1 / 3], np.float32)) == "[0.33333334]"


def test_compile_is_the_identity():
    """compile returns what it is given, called on a function, on a module, or as a decorator with options."""
    layer = mg.nn.Linear(1, 1)
    assert mg.compile(layer) is layer
    assert mg.compile(mode="default")(len) is len
