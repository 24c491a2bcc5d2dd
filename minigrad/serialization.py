"""Saving and loading: tensors in the safetensors format, the rest of the structure as JSON in its header.

Nothing in such a file can execute, and PyTorch, JAX and others read its tensors too.  Every JSON object in
the structure has one key, which says what its value is:

    a leaf      null, true, 3, "text", 0.5;  {"float": "inf"}
    a list      [...]                        {"tuple": [...]}
    a dict      {"dict": [[key, value], ...]}
    a tensor    {"tensor": name}             {"array": name}
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from minigrad.files import replace_file
from minigrad.tensor import Tensor

ENTRY = "minigrad"
"""Where the structure is in the file's metadata."""

CHECKSUM = "minigrad.sha256"
"""Where the checksum of it and of the tensors is: a damaged file must not load as another model."""

VERSION = 1

MAX_HEADER = 25_000_000
"""The longest header, in bytes.  (The format allows 100 MB.)"""

MAX_CONTAINERS = 1_200_000
"""The most lists and dicts in it, which read take up to 75 times as much memory as written: "[]" is a list.

So many hold the merges of a tokenizer of a million tokens.
"""

MAX_DEPTH = 100
"""How deeply containers may be nested: far below what Python's stack allows when the file is loaded."""

STORABLE = {
    "bool": "BOOL",
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    **{f"{kind}{bits}": f"{kind[0].upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}
"""NumPy's dtypes and what they are called in the format."""


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Write tensors, and the dicts, lists and values around them, to a file; an old one is replaced at once.

    >>> import tempfile, pathlib, minigrad as mg
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.safetensors"
    >>> mg.save({"weights": {"w": mg.ones(2)}, "step": 7}, path)
    >>> mg.load(path)
    {'weights': {'w': tensor([1., 1.])}, 'step': 7}

    Tensors get dotted names, "weights.w", and a flat dict of tensors keeps its own.  Tensors that share one
    memory (tied weights) are written once and come back as one object.  Whether a tensor requires its
    gradient is not written.

    The file is complete or not there: it is written beside ``path``, under another name, then put in place.

    Args:
        obj: a Tensor, ndarray, int, float, str, bool or None, or a dict (its keys str or int), list or tuple
            of such, up to 100 deep.
        path: where to; its directory must exist.

    Raises:
        TypeError: ``obj`` holds anything else; its type and place are named.
        ValueError: ``obj`` contains itself, is nested too deeply, or has too much beside its tensors.
        FileNotFoundError: there is no such directory.
        OSError: the file can't be written.
    """
    writer = _Writer()
    text = json.dumps({"version": VERSION, "object": writer.describe(obj, ())}, allow_nan=False)
    if n_containers(text) > MAX_CONTAINERS:
        raise ValueError(
            f"can't save to '{path}': the object has {n_containers(text):,} lists and dicts, "
            f"more than {MAX_CONTAINERS:,}: keep numbers in tensors"
        )
    write_arrays(writer.arrays, {ENTRY: text, CHECKSUM: checksum(text, writer.arrays)}, path)


def save_for_others(tensors: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """Write tensors, and nothing else, as other programs write them: a flat safetensors file of these names.

    :func:`save` adds a description of its own, for :func:`load` to check the file and to find shared memory again.

    Raises:
        TypeError: a tensor is of a dtype that can't be stored.
        FileNotFoundError: there is no such directory.
        OSError: the file can't be written.
    """
    arrays = {name: storable(tensor._data, name) for name, tensor in tensors.items()}
    write_arrays(arrays, {"format": "pt"}, path)  # without this entry, some programs refuse the file


def write_arrays(
    arrays: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str], path: str | os.PathLike[str]
) -> None:
    """Write a safetensors file; an old one is replaced at once.

    Raises:
        ValueError: the names and the metadata are too long.
        FileNotFoundError: there is no such directory.
        OSError: the file can't be written.
    """
    target = Path(os.path.realpath(path))  # of a symbolic link, the file and not the link is replaced
    if not target.parent.is_dir():
        raise FileNotFoundError(f"can't save to '{target}': there is no directory '{target.parent}'")
    if target.is_dir():
        raise IsADirectoryError(f"can't save to '{target}': it is a directory")
    header, ordered = lay_out(arrays, metadata)
    if len(header) > MAX_HEADER:
        raise ValueError(
            f"can't save to '{target}': what describes the object takes {len(header):,} bytes, "
            f"more than {MAX_HEADER:,}: keep numbers in tensors"
        )
    replace_file(target, [struct.pack("<Q", len(header)), header, *(array.data for array in ordered)])


def lay_out(
    arrays: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str]
) -> tuple[bytes, list[np.ndarray[Any, Any]]]:
    """Return the header of a file, and the arrays in the order of their bytes in it.

    The largest items come first, so that each array begins at a multiple of its item's size.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    ordered = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    offset = 0
    for name in ordered:
        array = arrays[name]
        end = offset + array.nbytes
        header[name] = {"dtype": STORABLE[array.dtype.name], "shape": array.shape, "data_offsets": (offset, end)}
        offset = end
    encoded = json.dumps(header, separators=(",", ":")).encode("utf-8")
    return encoded + b" " * (-len(encoded) % 8), [arrays[name] for name in ordered]


def checksum(text: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """Return the SHA-256 of all that a file says: the description, each array and its name, dtype and shape."""
    import hashlib  # takes a while to load

    total = hashlib.sha256(text.encode("utf-8"))
    for name in sorted(arrays):
        array = arrays[name]
        total.update(json.dumps([name, STORABLE[array.dtype.name], array.shape]).encode("utf-8"))
        total.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
    return total.hexdigest()


class _Writer:
    """Turns an object into its JSON description, and collects the arrays in it under names of their own."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.names: dict[Any, str] = {}  # by memory, so that what is shared is written once
        self.open: set[int] = set()  # the containers around the present place

    def describe(self, value: Any, place: tuple[Any, ...]) -> Any:
        """Return ``value``, found at ``place``, as JSON."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, Tensor):
            return {"tensor": self.store(value._data, place)}
        if isinstance(value, np.ndarray):
            return {"array": self.store(value, place)}
        if not isinstance(value, dict | list | tuple):
            raise TypeError(
                f"can't save {type(value).__name__} at {spell(place)}: save() takes tensors, arrays, "
                "numbers, strings, None, and dicts, lists and tuples of them"
            )
        if id(value) in self.open:
            raise ValueError(f"can't save an object that contains itself, at {spell(place)}")
        if len(place) >= MAX_DEPTH:
            raise ValueError(f"can't save an object that is nested more than {MAX_DEPTH} deep: flatten it")
        self.open.add(id(value))
        if isinstance(value, dict):
            for key in value:
                if type(key) not in (str, int):
                    raise TypeError(
                        f"can't save a dict with a key of type {type(key).__name__}, {key!r:.40}, at "
                        f"{spell(place)}: keys are str or int"
                    )
            described: Any = {"dict": [[key, self.describe(item, (*place, key))] for key, item in value.items()]}
        else:
            items = [self.describe(item, (*place, i)) for i, item in enumerate(value)]
            described = {"tuple": items} if isinstance(value, tuple) else items
        self.open.discard(id(value))
        return described

    def store(self, array: np.ndarray[Any, Any], place: tuple[Any, ...]) -> str:
        """Return the name under which ``array`` is written."""
        stored = storable(array, spell(place))
        # Two views of the same elements share their memory; arrays without elements share nothing.
        address = array.__array_interface__["data"][0]
        key = (address, array.shape, array.strides, array.dtype.str) if array.size else id(array)
        if key not in self.names:
            # UTF-8, which the format demands, has no place for half of a surrogate pair.
            stem = ".".join(map(str, place)).encode("utf-8", "backslashreplace").decode("utf-8") or "tensor"
            name, n = stem, 1
            while name in self.arrays or name == "__metadata__":  # the latter the format reserves
                n += 1
                name = f"{stem}#{n}"
            self.names[key] = name
            self.arrays[name] = stored
        return self.names[key]


def storable(array: np.ndarray[Any, Any], place: str) -> np.ndarray[Any, Any]:
    """Return an array as its bytes are written.

    Raises:
        TypeError: there is no such dtype in the format; ``place`` is named.
    """
    if array.dtype.name not in STORABLE:
        raise TypeError(
            f"can't save an array of dtype {array.dtype} at {place}: convert it to floats, integers or booleans"
        )
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")


def spell(place: tuple[Any, ...]) -> str:
    """Return a place in a nested object as it is written in Python.

    >>> spell(("model", 0))
    "obj['model'][0]"
    """
    return "obj" + "".join(f"[{key!r}]" for key in place)


def load(path: str | os.PathLike[str]) -> Any:
    """Return what :func:`save` wrote; of another program's safetensors file, a dict of its tensors by name.

    Nothing from the file is executed, and the memory used is in proportion to its size.  Even a single wrong bit
    is noticed, by a checksum.  Tensors come back without gradients, parameters as plain tensors: give them to
    ``load_state_dict``.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no safetensors file, or cut off, damaged, or of another version.
    """
    file = Path(path)
    if file.is_dir():
        raise IsADirectoryError(f"can't load '{file}': it is a directory")
    if not file.exists():
        raise FileNotFoundError(f"can't load '{file}': there is no such file")
    check_header(file)
    tensors, metadata = read_tensors(file)
    if not {ENTRY, CHECKSUM} & set(metadata):
        return tensors
    described = read_description(file, tensors, metadata)
    try:
        return rebuild(described, tensors)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        refuse(file, "its description doesn't fit its tensors")


def read_tensors(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a safetensors file by name, and what else its header says.

    Raises:
        ValueError: it is none, or has tensors of a dtype that has no place here.
    """
    from safetensors import SafetensorError, safe_open

    tensors = {}
    try:
        with safe_open(os.fspath(file), framework="np") as opened:
            metadata = opened.metadata() or {}
            for name in opened.keys():  # noqa: SIM118 (it is no dict)
                dtype = opened.get_slice(name).get_dtype()
                if dtype not in STORABLE.values():
                    raise TypeError(f"its tensor '{name}' is {dtype}, which has no place here: make it F32")
                array = opened.get_tensor(name)
                tensors[name] = Tensor(array if array.flags.writeable else array.copy())
    except (SafetensorError, ValueError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        refuse(file, str(error) or type(error).__name__)
    return tensors, metadata


def read_description(file: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Any:
    """Return the description of an object that :func:`save` wrote beside its tensors.

    Raises:
        ValueError: the checksum is missing or wrong, or the description is no such one.
    """
    text = metadata.get(ENTRY, "")
    if CHECKSUM not in metadata:
        refuse(
            file,
            "it has no checksum, so an older version of minigrad wrote it, and none can tell whether it is whole: "
            "make it anew with this version",
        )
    if metadata[CHECKSUM] != checksum(text, {name: tensor._data for name, tensor in tensors.items()}):
        refuse(file, "it is damaged: its checksum is not that of its contents")
    if n_containers(text) > MAX_CONTAINERS:
        refuse(file, f"its description has {n_containers(text):,} lists and dicts, more than {MAX_CONTAINERS:,}")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        refuse(file, "its description is no JSON")
    if not isinstance(content, dict) or content.get("version") != VERSION or "object" not in content:
        version = content.get("version") if isinstance(content, dict) else None
        refuse(file, f"its description has version {version!r:.20}, and this program reads {VERSION}")
    return content["object"]


def n_containers(text: str) -> int:
    """Return how many lists and dicts a JSON text holds at most: brackets in strings count too."""
    return text.count("[") + text.count("{")


def refuse(file: Path, reason: str) -> NoReturn:
    """Raise for a file that can't be loaded."""
    raise ValueError(f"can't load '{file}': {' '.join(reason.split())}") from None


def check_header(file: Path) -> None:
    """Raise for a file whose first eight bytes, the length of its header, can't be right.

    Raises:
        ValueError: that.
    """
    size = file.stat().st_size
    with file.open("rb") as opened:
        start = opened.read(8)
    if len(start) < 8:
        refuse(file, f"it has only {size} bytes, so it is no safetensors file")
    (length,) = struct.unpack("<Q", start)
    if length > min(size - 8, MAX_HEADER):
        refuse(file, f"it is cut off, or no safetensors file: a header of {length} bytes in a file of {size}")


def rebuild(described: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Return the object that a description stands for.

    Raises:
        ValueError, TypeError, KeyError: it stands for none.
    """
    if isinstance(described, list):
        return [rebuild(item, tensors) for item in described]
    if not isinstance(described, dict):
        return described
    ((kind, value),) = described.items()
    makers: dict[str, Callable[[], Any]] = {
        "float": lambda: float(value),
        "tuple": lambda: tuple(rebuild(item, tensors) for item in value),
        "dict": lambda: {key: rebuild(item, tensors) for key, item in value},
        "tensor": lambda: tensors[value],
        "array": lambda: tensors[value]._data,
    }
    return makers[kind]()
