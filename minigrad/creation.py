"""Functions that make tensors from numbers, lists and arrays.

Most take ``dtype=`` (None means the default dtype, float32, where nothing else is said), ``device=`` (None or
"cpu") and ``requires_grad=``.  They raise TypeError for a dtype that has no place here, such as a complex one, or
for a size that is no integer; and RuntimeError for a negative size, another device, or ``requires_grad=True`` with
a dtype that is not floating.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad import dtypes
from minigrad.arguments import as_array, extent
from minigrad.devices import check_device
from minigrad.tensor import Tensor

__all__ = [
    "arange",
    "as_tensor",
    "empty",
    "empty_like",
    "eye",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]


def _infer(data: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Return ``data`` as an array: an array keeps its dtype, Python floats take the default one.

    Raises:
        TypeError: the data hold something that is no number.
        RuntimeError: the data are None.
        ValueError: nested lists of unequal length.
    """
    if data is None:
        raise RuntimeError("a tensor can't be made from None: pass a number, a list or an array")
    listed = isinstance(data, list | tuple)
    if listed and _holds_tensors(data):
        data = _without_tensors(data)
    array = np.asarray(as_array(data))
    if array.dtype.kind not in "biuf":
        raise TypeError(f"a tensor holds floats, integers or booleans, not {array.dtype} ({data!r:.60})")
    if dtype is None:
        python_floats = array.dtype.kind == "f" and not isinstance(data, np.ndarray | np.generic | Tensor)
        if python_floats or (listed and not array.size):
            dtype = dtypes.get_default_dtype()
    return array if dtype is None else array.astype(dtypes.as_dtype(dtype), copy=False)


def _holds_tensors(data: Any) -> bool:
    """Return whether there is a tensor in nested lists."""
    return any(isinstance(x, Tensor) or (isinstance(x, list | tuple) and _holds_tensors(x)) for x in data)


def _without_tensors(data: Any) -> Any:
    """Return nested lists with a number or a list in place of each tensor."""
    if isinstance(data, list | tuple):
        return [_without_tensors(part) for part in data]
    return data.tolist() if isinstance(data, Tensor) else data


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Make a tensor from a copy of ``data``: a number, nested lists, an array or another tensor.

    >>> import minigrad as mg
    >>> mg.tensor([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)

    Python floats take the default dtype (float32), Python ints int64, arrays keep theirs.

    Raises:
        TypeError: ``data`` holds something that is no number, or the dtype has no place here.
        ValueError: lists within a list are of unequal length.
        RuntimeError: ``data`` is None, another device is named, or ``requires_grad`` with a dtype that is not
            floating.
    """
    check_device(device)
    array = _infer(data, dtype)
    # order "K" would keep a transposed layout: a copy is in row-major order.
    return Tensor(np.array(array, order="C")).requires_grad_(requires_grad)


def as_tensor(data: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Make a tensor that shares the memory of ``data`` where it can; a Tensor of that dtype is returned itself.

    Raises:
        TypeError, ValueError, RuntimeError: as :func:`tensor`.
    """
    check_device(device)
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    return Tensor(_infer(data, dtype))


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """Make a tensor of the same memory as ``array``.

    Raises:
        TypeError: ``array`` is no ndarray, or of a dtype that is no number.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy() expects an ndarray, not {type(array).__name__}: use mg.tensor(...)")
    return Tensor(_infer(array, None))


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Make a vector of the same memory as a ``bytes``, ``bytearray``, ``array.array``, ``mmap`` or the like.

    >>> import minigrad as mg
    >>> mg.frombuffer(b"\\x01\\x02\\x03", dtype=mg.uint8, offset=1)
    tensor([2, 3], dtype=uint8)

    Args:
        buffer: any object with Python's buffer protocol; if it is read-only, so is the tensor's memory.
        dtype: what the bytes are, in the machine's byte order.
        count: how many elements; a negative number means all that are left.
        offset: how many bytes of the buffer come before the first.
        requires_grad: of the tensor.

    Raises:
        ValueError: there are no elements, not so many, or the last is incomplete.
    """
    n_bytes, chosen = memoryview(buffer).nbytes, dtypes.as_dtype(dtype)
    available = n_bytes - offset
    if n_bytes == 0 or count == 0:
        raise ValueError(f"frombuffer() can't make a tensor of {count} elements from {n_bytes} bytes")
    if not 0 <= offset < n_bytes:
        raise ValueError(f"frombuffer() can't start at byte {offset} of {n_bytes}")
    if count < 0 and available % chosen.itemsize:
        raise ValueError(
            f"frombuffer() needs whole elements of {chosen.itemsize} bytes ({chosen}), and {available} bytes "
            f"are left after the offset {offset}"
        )
    if count * chosen.itemsize > available:
        raise ValueError(
            f"frombuffer() can't take {count} elements of {chosen.itemsize} bytes ({chosen}) from {available}"
        )
    return Tensor(np.frombuffer(buffer, chosen, max(count, -1), offset)).requires_grad_(requires_grad)


def wrap(array: np.ndarray[Any, Any], device: Any, requires_grad: bool) -> Tensor:
    """Return an array as a tensor, with the options that most functions here take."""
    check_device(device)
    return Tensor(array).requires_grad_(requires_grad)


def _default_if_none(dtype: Any) -> Any:
    return dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return zeros of shape ``size``.

    Args:
        size: the shape: ``zeros(2, 3)`` or ``zeros((2, 3))``.
        dtype: of the elements (default: the default dtype, float32).
        device: "cpu" or None.
        requires_grad: whether a backward pass computes a gradient for the tensor.

    Raises:
        RuntimeError: a size is negative, another device is named, or ``requires_grad`` with a dtype that is not
            floating.
        TypeError: a size is no integer, or the dtype has no place here.
    """
    return wrap(np.zeros(extent(size), _default_if_none(dtype)), device, requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return ones of shape ``size``: arguments and errors are those of :func:`zeros`."""
    return wrap(np.ones(extent(size), _default_if_none(dtype)), device, requires_grad)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of shape ``size`` whose elements are whatever the memory held; else as :func:`zeros`."""
    return wrap(np.empty(extent(size), _default_if_none(dtype)), device, requires_grad)


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of shape ``size`` with every element ``fill_value``, whose type decides the dtype.

    Args:
        size: the shape, a tuple or a number.
        fill_value: a number, or a tensor of one.
        dtype: of the elements (default: that of ``fill_value``; of a Python float the default dtype).
        device, requires_grad: as of :func:`zeros`.
    """
    value = _infer(as_array(fill_value), dtype)
    return wrap(np.full(extent((size,)), value), device, requires_grad)


def arange(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return numbers from ``start`` (0 if left out) in steps of ``step`` up to but not including ``end``.

    They are int64, or of the default dtype if one of the three is a float.

    Raises:
        RuntimeError: ``step`` is 0.
    """
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("arange() needs a step other than 0")
    if dtype is None and any(isinstance(value, float) for value in (start, end, step)):
        dtype = dtypes.get_default_dtype()
    array = np.arange(start, end, step)
    return wrap(array.astype(dtypes.as_dtype(dtype or array.dtype), copy=False), device, requires_grad)


def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ``steps`` numbers evenly spaced from ``start`` to ``end``, both included.

    Raises:
        ValueError: ``steps`` is negative.
    """
    return wrap(np.linspace(start, end, steps, dtype=_default_if_none(dtype)), device, requires_grad)


def eye(
    n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return the identity matrix (n, n), or zeros (n, m) with ones on the diagonal.

    Raises:
        ValueError: ``n`` or ``m`` is negative.
    """
    return wrap(np.eye(n, m, dtype=_default_if_none(dtype)), device, requires_grad)


def zeros_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Return zeros of the shape and dtype of ``input``."""
    return zeros(input.shape, dtype=dtype or input.dtype, requires_grad=requires_grad)


def ones_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Return ones of the shape and dtype of ``input``."""
    return ones(input.shape, dtype=dtype or input.dtype, requires_grad=requires_grad)


def empty_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of the shape and dtype of ``input`` whose elements are whatever the memory held."""
    return empty(input.shape, dtype=dtype or input.dtype, requires_grad=requires_grad)


def full_like(input: Tensor, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of the shape and dtype of ``input`` with every element ``fill_value``."""
    return full(input.shape, fill_value, dtype=dtype or input.dtype, requires_grad=requires_grad)


def tril_indices(row: int, col: int, offset: int = 0, *, device: Any = None) -> Tensor:
    """Return the places in the lower triangle of a (row, col) matrix, up to diagonal ``offset``: (2, n) int64."""
    return wrap(np.stack(np.tril_indices(row, offset, col)), device, False)


def triu_indices(row: int, col: int, offset: int = 0, *, device: Any = None) -> Tensor:
    """Return the places in the upper triangle of a (row, col) matrix, from diagonal ``offset``: (2, n) int64."""
    return wrap(np.stack(np.triu_indices(row, offset, col)), device, False)
