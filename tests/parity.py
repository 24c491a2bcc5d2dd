"""The same call on both engines: how it is run, and how results, dtypes, gradients and errors are compared."""

import math
import warnings
import zlib

import numpy as np
import pytest

import minigrad as mg

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install minigrad[torch]")

EVERY = ("float32", "float64", "int64", "bool")
NUMBERS = ("float32", "float64", "int64")
FLOATS = ("float32", "float64")
SHAPES = [(), (1,), (4,), (0,), (2, 3), (3, 0), (2, 1, 3), (2, 3, 1, 2)]
SOME = [shape for shape in SHAPES if 0 not in shape]
DIMS = [shape for shape in SHAPES if shape]
MATRICES = [(2, 3), (3, 0), (1, 1), (2, 1, 3), (2, 3, 1, 2)]
PAIRS = [
    ((), ()),
    ((3,), ()),
    ((), (2, 3)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((0,), (1,)),
    ((2, 3, 1, 2), (3, 2, 1)),
    ((4,), (4,)),
]
LAYOUTS = ("contiguous", "transposed", "sliced")
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


def module(engine):
    """Return the engine's nn.functional."""
    return engine.nn.functional


def numbers(rng, shape, dtype, kind):
    """Return an array of ``dtype``: numbers of both signs away from 0 and without ties, or of the kind asked."""
    n = math.prod(shape)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype == "int64":
        return rng.integers(1 if kind in ("positive", "nonzero") else -4, 5, shape)
    spaced = (rng.permutation(n) + rng.uniform(0.2, 0.8, n)) / max(n, 1) if n else np.zeros(0)
    spread = {
        "any": 4 * spaced - 2,
        "nonzero": (0.3 + 2 * spaced) * rng.choice([-1.0, 1.0], n),
        "positive": 0.2 + 2 * spaced,
        "unit": 1.8 * spaced - 0.9,
    }[kind]
    return spread.reshape(shape).astype(dtype)


def lay_out(array, layout):
    """Return the same values, in memory as the layout says."""
    if layout == "transposed":
        return array.T.copy().T
    if layout == "sliced" and array.ndim:
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
        wide[..., 1::2] = array
        return wide[..., 1::2]
    return array.copy()


def tensor_of(engine, array, requires_grad=False):
    """Return a tensor of ``engine`` that shares ``array``, strides and all."""
    made = engine.from_numpy(np.asarray(array))
    return made.requires_grad_() if requires_grad and array.dtype.kind == "f" else made


def results(value):
    """Return what a call returned as a list, each a tensor or a plain value."""
    return list(value) if isinstance(value, tuple | list) else [value]


def dtype_name(tensor):
    """Return "float32" for either engine's tensor of it."""
    return str(tensor.dtype).removeprefix("torch.")


def run(engine, function, arrays, cotangent_seed):
    """Return (values, dtypes, gradients) of a call on ``engine``, or the type of the error that it raises."""
    leaves = [tensor_of(engine, array, True) for array in arrays]
    try:
        outputs = results(function(engine, *leaves))
    except Exception as error:
        return type(error)
    tensors = [y for y in outputs if isinstance(y, engine.Tensor)]
    plain = [y for y in outputs if not isinstance(y, engine.Tensor)]
    wanted = [x for x in leaves if x.requires_grad]
    grown = [y for y in tensors if y.requires_grad]
    rng = np.random.default_rng(cotangent_seed)
    cotangents = [
        tensor_of(
            engine,
            (rng.uniform(0.5, 1.5, tuple(y.shape)) * rng.choice([-1.0, 1.0], tuple(y.shape))).astype(
                dtype_name(y)
            ),
        )
        for y in grown
    ]
    gradients = []
    if grown and wanted:
        found = engine.autograd.grad(grown, wanted, cotangents, allow_unused=True)
        gradients = [
            np.zeros(x.shape) if g is None else g.detach().numpy() for g, x in zip(found, wanted, strict=True)
        ]
    values = [y.detach().numpy() for y in tensors] + [np.asarray(y) for y in plain]
    return values, [dtype_name(y) for y in tensors], gradients


def assert_close(ours, theirs, tolerance, what):
    """Hold an array to the peer's: of its shape, and within ``tolerance`` of its largest finite entry."""
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, PyTorch {theirs.shape}"
    if ours.dtype.kind != "f":
        np.testing.assert_array_equal(ours, theirs, err_msg=what)
        return
    scale = np.max(np.abs(theirs), initial=0.0, where=np.isfinite(theirs))
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * max(scale, 1e-3), err_msg=what)


def assert_parity(function, arrays, what):
    """Run the call on both engines and compare everything; return whether they gave results (not errors)."""
    seed = zlib.crc32(what.encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's: of deprecations, of names, of beta features
        ours, theirs = (run(engine, function, arrays, seed) for engine in (mg, torch))
    if isinstance(ours, type) or isinstance(theirs, type):
        assert isinstance(ours, type), f"{what}: PyTorch raises {theirs.__name__}, minigrad doesn't"
        assert isinstance(theirs, type), f"{what}: minigrad raises {ours.__name__}, PyTorch doesn't"
        assert issubclass(ours, theirs), f"{what}: {ours.__name__}, PyTorch {theirs.__name__}"
        return False
    assert ours[1] == theirs[1], f"{what}: dtypes {ours[1]}, PyTorch {theirs[1]}"
    tolerance = max([TOLERANCE[x.dtype.name] for x in arrays if x.dtype.kind == "f"], default=1e-5)
    for name, mine, peers in (("value", ours[0], theirs[0]), ("gradient", ours[2], theirs[2])):
        assert len(mine) == len(peers), f"{what}: {len(mine)} {name}s, PyTorch {len(peers)}"
        for k, (a, b) in enumerate(zip(mine, peers, strict=True)):
            assert_close(a, b, tolerance, f"{what}: {name} {k}")
    return True
