"""Saving and loading: what comes back, what other programs read, and that a file is whole or not there."""

import errno
import math
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from stored import same

import minigrad as mg
from minigrad import files, serialization


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.safetensors"


def round_trip(obj, path):
    mg.save(obj, path)
    return mg.load(path)


# --- what comes back --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "obj",
    [
        None,
        True,
        3,
        -(2**127),
        0.1,
        -0.0,
        math.inf,
        -math.inf,
        math.nan,
        "",
        "naïve \n\x00 \U0001f600 \ud800",
        [],
        (),
        {},
        [1, 1.0, True, "1", None],
        {"a": (1, [2, {"b": ()}]), 1: "int", "1": "str", -2: [None]},
        {"tensor": {"tensor": "x"}, "dict": [["a", 1]], "float": "inf", "tuple": []},
        mg.tensor(1.5),
        mg.zeros(0, 3),
        np.arange(3),
    ],
    ids=lambda obj: repr(obj)[:20].encode("ascii", "backslashreplace").decode(),
)
def test_values_come_back_as_they_were(obj, path):
    assert same(round_trip(obj, path), obj)


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (3, 4)])
def test_every_dtype_and_shape(dtype, shape, path):
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    loaded = round_trip({"tensor": mg.tensor(array), "array": array}, path)
    assert same(loaded, {"tensor": mg.tensor(array), "array": array})


def test_memory_layout_does_not_matter(path):
    base = np.arange(24.0).reshape(2, 3, 4)
    arrays = {
        "transposed": base.T,
        "strided": base[:, ::2, ::-1],
        "expanded": np.broadcast_to(base[0], (5, 3, 4)),
        "swapped": base.astype(">f8"),
        "fortran": np.asfortranarray(base),
    }
    loaded = round_trip(arrays, path)
    for name, array in arrays.items():
        assert np.array_equal(loaded[name], array)
        assert loaded[name].flags.c_contiguous
        assert loaded[name].dtype == np.float64


def test_random_nests(path):
    rng = random.Random(0)
    keys = ["a", "b", "a.b", "", ".", "..", "__metadata__", "tensor", "a#2", "0", 0, 1, "é", "\udfff"]

    def nest(depth):
        kind = rng.choice(["dict", "list", "tuple", "tensor", "leaf"] if depth else ["tensor", "leaf"])
        if kind == "dict":
            return {key: nest(depth - 1) for key in rng.sample(keys, rng.randint(0, 5))}
        if kind in ("list", "tuple"):
            items = [nest(depth - 1) for _ in range(rng.randint(0, 4))]
            return items if kind == "list" else tuple(items)
        if kind == "tensor":
            return mg.tensor(np.float32(rng.random()) * np.ones(rng.choice([(), (2,), (0, 1)]), np.float32))
        return rng.choice([None, True, 7, math.pi, math.inf, "text"])

    for _ in range(60):
        obj = nest(4)
        assert same(round_trip(obj, path), obj)


def test_names_that_would_collide_stay_apart(path):
    state = {
        "a": {"b": mg.tensor(1.0), "b#2": mg.tensor(2.0)},
        "a.b": mg.tensor(3.0),
        "a.b#2": mg.tensor(4.0),
        "": mg.tensor(5.0),
        "tensor": mg.tensor(6.0),
        "__metadata__": mg.tensor(7.0),
        "list": [mg.tensor(8.0)],
        "list.0": mg.tensor(9.0),
    }
    assert same(round_trip(state, path), state)


def test_tied_tensors_are_written_once_and_come_back_tied(path):
    w = mg.nn.Parameter(mg.ones(300, 10))
    obj = {
        "w": w,
        "again": w,
        "detached": w.detach(),
        "array": w.detach().numpy(),
        "view": w.detach().view(300, 10),
    }
    loaded = round_trip(obj, path)
    assert loaded["again"] is loaded["w"]
    assert loaded["detached"] is loaded["w"]
    assert loaded["view"] is loaded["w"]
    assert np.shares_memory(loaded["array"], loaded["w"].numpy())
    assert path.stat().st_size < 1.2 * w.detach().numpy().nbytes
    equal = round_trip([mg.ones(2), mg.ones(2), mg.zeros(0), mg.zeros(0)], path)
    assert equal[0] is not equal[1]
    assert equal[2] is not equal[3]


def test_parameters_come_back_as_plain_tensors_that_can_be_written(path):
    loaded = round_trip(mg.nn.Parameter(mg.ones(2)), path)
    assert type(loaded) is mg.Tensor
    assert not loaded.requires_grad
    loaded += 1
    assert loaded.tolist() == [2, 2]


def test_a_model_with_tied_weights_comes_back(path):
    def build():
        net = mg.nn.Sequential(mg.nn.Embedding(4, 3), mg.nn.Linear(3, 4, bias=False))
        net[1].weight = net[0].weight
        return net

    net, other = build(), build()
    mg.save(net.state_dict(), path)
    other.load_state_dict(mg.load(path))
    ids = mg.tensor([0, 3])
    assert mg.equal(net(ids), other(ids))
    assert other[1].weight is other[0].weight


def test_the_generators_state_comes_back(path):
    mg.manual_seed(5)
    state = round_trip({"rng": mg.get_rng_state()}, path)["rng"]
    first = mg.rand(3)
    mg.set_rng_state(state)
    assert mg.equal(mg.rand(3), first)


def test_importing_minigrad_does_not_import_safetensors():
    code = "import sys, minigrad; print('safetensors' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


# --- other programs ---------------------------------------------------------------------------------


def test_the_file_is_read_by_the_safetensors_library(path):
    from safetensors.numpy import load_file

    mg.save({"layer": {"weight": mg.ones(2, 3)}, "flat.name": mg.tensor([1, 2]), "step": 4}, path)
    arrays = load_file(path)
    assert sorted(arrays) == ["flat.name", "layer.weight"]
    assert arrays["layer.weight"].shape == (2, 3)


def test_files_go_to_pytorch_and_come_from_it(torch_safetensors, path):
    torch, library = torch_safetensors
    net = mg.nn.Sequential(mg.nn.Linear(3, 2), mg.nn.LayerNorm(2))
    mg.save(net.state_dict(), path)
    peer = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    peer.load_state_dict(library.load_file(path))
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    expected = peer(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(net(mg.tensor(x)).detach().numpy(), expected, rtol=1e-5, atol=1e-6)

    with torch.no_grad():
        peer[0].weight += 1
    library.save_file(peer.state_dict(), path)
    state = mg.load(path)
    assert {type(value) for value in state.values()} == {mg.Tensor}
    net.load_state_dict(state)
    assert np.array_equal(net[0].weight.detach().numpy(), peer[0].weight.detach().numpy())

    library.save_file({"w": torch.ones(2).bfloat16()}, path)
    with pytest.raises(ValueError, match="'w' is BF16"):
        mg.load(path)


@pytest.fixture
def torch_safetensors():
    torch = pytest.importorskip("torch", reason="exchanges files with PyTorch, which is not installed")
    return torch, pytest.importorskip("safetensors.torch", reason="needs safetensors with PyTorch")


# --- what can't be saved ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"model": [mg.ones(1), {1, 2}]}, r"set at obj\['model'\]\[1\]"),
        ({"f": print}, r"builtin_function_or_method at obj\['f'\]"),
        (1j, "complex at obj:"),
        ([np.int64(3)], r"int64 at obj\[0\]"),
        (b"bytes", "bytes"),
        ({1.5: 0}, r"key of type float, 1\.5"),
        ({"a": {True: 0}}, r"key of type bool, True, at obj\['a'\]"),
        ({(1, 2): 0}, "key of type tuple"),
        (np.zeros(2, complex), "complex128"),
        ({"s": np.array(["x"])}, r"<U1 at obj\['s'\]"),
    ],
)
def test_what_has_no_place_in_a_file_is_named_with_its_place(obj, message, path):
    mg.save("old", path)
    with pytest.raises(TypeError, match=message):
        mg.save(obj, path)
    assert mg.load(path) == "old"
    assert list(path.parent.iterdir()) == [path]


def test_an_object_that_contains_itself_or_is_too_deep(path):
    loop = {"a": []}
    loop["a"].append(loop)
    with pytest.raises(ValueError, match=r"contains itself, at obj\['a'\]\[0\]"):
        mg.save(loop, path)
    twice = [1]
    assert round_trip([twice, twice], path) == [[1], [1]]
    for wrap in (lambda inner: [inner], lambda inner: (inner,), lambda inner: {"a": inner}):
        deep = 0
        for _ in range(serialization.MAX_DEPTH):
            deep = wrap(deep)
        assert round_trip(deep, path) == deep
        with pytest.raises(ValueError, match="100 deep"):
            mg.save(wrap(deep), path)


def test_what_could_not_be_loaded_again_is_not_saved(path, monkeypatch):
    mg.save("old", path)
    monkeypatch.setattr(serialization, "MAX_HEADER", 1000)
    with pytest.raises(ValueError, match=r"takes \d,\d\d\d bytes, more than 1,000: keep numbers in tensors"):
        mg.save(list(range(400)), path)
    assert mg.load(path) == "old"
    mg.save(mg.arange(400), path)
    assert mg.load(path).shape == (400,)
    monkeypatch.undo()
    monkeypatch.setattr(serialization, "MAX_CONTAINERS", 400)
    with pytest.raises(ValueError, match="has 402 lists and dicts, more than 400: keep numbers in tensors"):
        mg.save([[]] * 400, path)
    mg.save([[]] * 398, path)
    assert mg.load(path) == [[]] * 398


# --- atomic replacement -----------------------------------------------------------------------------


def fail(*args, **kwargs):
    raise OSError("no space left on device")


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_failed_save_leaves_the_old_file_and_nothing_else(name, path, monkeypatch):
    mg.save({"step": 1}, path)
    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail)
        with pytest.raises(OSError, match="no space"):
            mg.save({"step": 2}, path)
    assert mg.load(path) == {"step": 1}
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_a_disk_that_is_full_at_any_byte_leaves_the_old_file(path):
    """The system lets no file grow beyond so many bytes; the error names the file as the caller did."""
    import resource

    new = {"w": mg.ones(5), "x": mg.ones(2, dtype=mg.float64), "step": 2}
    mg.save(new, path)
    size = path.stat().st_size
    mg.save({"step": 1}, path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (*range(0, size, 7), size - 1):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
            with pytest.raises(OSError, match="File too large") as caught:
                mg.save(new, path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.errno == errno.EFBIG
        assert caught.value.filename == str(path)
        assert mg.load(path) == {"step": 1}
        assert list(path.parent.iterdir()) == [path]
    mg.save(new, path)
    assert same(mg.load(path), new)


def test_a_file_that_is_being_read_is_replaced_a_moment_later(path, monkeypatch):
    """As Windows has it."""
    mg.save(1, path)
    ordinary, failures = os.replace, []

    def busy(*args):
        if len(failures) < 2:
            failures.append(args)
            raise PermissionError(13, "Access is denied")
        ordinary(*args)

    monkeypatch.setattr(os, "replace", busy)
    monkeypatch.setattr(files, "REPLACE_TRIES", 2)
    with pytest.raises(PermissionError, match="Access is denied"):
        mg.save(2, path)
    assert mg.load(path) == 1
    failures.clear()
    monkeypatch.setattr(files, "REPLACE_TRIES", 3)
    mg.save(2, path)
    assert mg.load(path) == 2
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupt_leaves_the_old_file(path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    mg.save(1, path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            mg.save(2, path)
    assert mg.load(path) == 1
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions and links")
def test_permissions_and_links_are_those_of_an_ordinary_file(tmp_path):
    ordinary = tmp_path / "ordinary"
    ordinary.write_bytes(b"")
    target, link = tmp_path / "target", tmp_path / "link"
    mg.save(1, target)
    assert target.stat().st_mode == ordinary.stat().st_mode
    link.symlink_to(target)
    mg.save(2, link)
    assert link.is_symlink()
    assert mg.load(target) == 2


def test_places_that_are_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        mg.save(1, tmp_path / "none" / "file")
    with pytest.raises(IsADirectoryError, match="is a directory"):
        mg.save(1, tmp_path)
    with pytest.raises(IsADirectoryError, match="is a directory"):
        mg.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        mg.load(tmp_path / "none")
