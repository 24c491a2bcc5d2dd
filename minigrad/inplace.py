"""Writing into a tensor's memory while operations are recorded: x += y, x[i, j] = v, also through views.

What is written becomes part of the graph as if a new tensor had been made: an *overwrite* of the tensor that owns
the memory, by the new values at certain positions.  The owner moves on to the node of the overwrite, and each
view of it finds its own new place when it is next used (:meth:`minigrad.graph.TensorBase.refresh`).  Values that
rules had saved before are protected by their version: a backward pass that needs them says so instead of using
what stands there now.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.grad_mode import is_grad_enabled
from minigrad.graph import TensorBase
from minigrad.plan import NEVER_WRITTEN
from minigrad.rules.indexing import overwrite
from minigrad.rules.shape import reshape


def owner(tensor: TensorBase) -> TensorBase:
    """Return the tensor whose memory ``tensor`` is a view of; itself if it is no view."""
    while tensor._view is not None:
        tensor = tensor._view.base
    return tensor


def positions(tensor: TensorBase) -> np.ndarray[Any, Any]:
    """Return for each element of a view its position in the flattened owner."""
    if tensor._view is None:
        return np.arange(tensor._data.size).reshape(tensor._data.shape)
    return tensor._view.replay(positions(tensor._view.base))  # type: ignore[no-any-return]


def check_writable(tensor: TensorBase, name: str, recorded: bool) -> None:
    """Raise if ``tensor`` can't be written in place.

    Raises:
        RuntimeError: its memory is read-only; or the write is to be recorded, and the memory belongs to a leaf
            that requires a gradient, which must stay the leaf that it is; or it can't be recorded, because the
            tensor is a view that was made unrecorded.
    """
    shape = tuple(tensor.shape)
    if not tensor._data.flags.writeable:
        raise RuntimeError(
            f"{name} in place on a tensor of shape {shape} whose memory is read-only, or holds one element in "
            "several places (expand): write into x.clone() instead"
        )
    base = owner(tensor)
    if recorded and base._node is None and base._requires_grad:
        what = "a leaf tensor" if base is tensor else "a view of a leaf tensor"
        raise RuntimeError(
            f"{name} in place on {what} of shape {shape} that requires a gradient: write y = x + ... for a new "
            "tensor, or update it inside `with mg.no_grad():`"
        )
    if is_grad_enabled() and base._requires_grad and not tensor.refresh()._requires_grad:
        raise RuntimeError(
            f"{name} in place on a view of shape {shape} that was made inside `with mg.no_grad():`, of a tensor "
            "that requires a gradient: make the view outside to have the write recorded, or write inside as well"
        )


def write_directly(tensor: TensorBase, ufunc: np.ufunc, other: Any) -> bool:
    """Overwrite ``tensor`` by ufunc(tensor, other) in one pass, if nothing is to be recorded or promoted.

    Returns:
        Whether that could be done.
    """
    value = other
    if isinstance(other, TensorBase):
        if other.dtype != tensor.dtype or (is_grad_enabled() and other.refresh()._requires_grad):
            return False
        value = other._data
    elif type(other) is not float:
        return False
    data = tensor._data
    if tensor.dtype.kind != "f" or (is_grad_enabled() and tensor.refresh()._requires_grad):
        return False
    if not data.flags.writeable or np.shape(value) not in ((), data.shape):
        return False
    if tensor._view is not None and is_grad_enabled():
        return False  # its owner may require a gradient
    with np.errstate(all="ignore"):  # infinities and NaN are values, not warnings
        ufunc(data, value, out=data)
    tensor._version[0] += 1
    return True


def replace(tensor: TensorBase, result: TensorBase, name: str) -> None:
    """Write ``result``, computed from ``tensor``'s present value, into its memory, and record it as its value.

    Raises:
        RuntimeError: the shape doesn't fit, the dtype would lose digits, or as :func:`check_writable`.
    """
    check_writable(tensor, name, result._requires_grad)
    if result.shape != tensor.shape:
        raise RuntimeError(
            f"{name} in place gives shape {tuple(result.shape)}, which doesn't fit into {tuple(tensor.shape)}"
        )
    if not np.can_cast(result.dtype, tensor.dtype, casting="same_kind"):
        raise RuntimeError(f"{name} in place gives {result.dtype}, which can't be stored as {tensor.dtype}")
    keep_old_value(tensor, result)
    np.copyto(tensor._data, result._data, casting="same_kind")
    tensor._version[0] += 1
    if not result._requires_grad:
        return
    if tensor._view is None and result.dtype == tensor.dtype:
        tensor._node, tensor._requires_grad = result._node, True
        tensor._version[1] += 1
    else:
        record_overwrite(tensor, result, positions(tensor))


def keep_old_value(tensor: TensorBase, result: TensorBase) -> None:
    """Give the rules that named the old value of ``tensor`` a copy of it, since its memory is about to change."""
    node = result._node
    if node is None or node.saved is None:
        return
    saved, versions = list(node.saved), list(node.versions)
    for k, value in enumerate(node.saved):
        if value is tensor._data:
            saved[k] = value.copy()
            versions[2 * k : 2 * k + 2] = NEVER_WRITTEN, 0
    node.saved, node.versions = saved, versions


def assign(tensor: TensorBase, index: Any, value: Any) -> None:
    """Carry out ``tensor[index] = value``, recorded if anything in it requires a gradient.

    Raises:
        RuntimeError: as :func:`check_writable`.
    """
    tensor.refresh()
    needs = tensor._requires_grad or (isinstance(value, TensorBase) and value.refresh()._requires_grad)
    recorded = is_grad_enabled() and needs
    check_writable(tensor, "x[index] = value", recorded)
    at = positions(tensor)[index] if recorded else None
    source = value._data if isinstance(value, TensorBase) else value
    if isinstance(value, TensorBase) and source.size == 1:
        source = source.reshape(())  # a vector of one into a single element, which NumPy refuses
    try:
        tensor._data[index] = source
    except ValueError as error:
        raise RuntimeError(f"x[index] = value: {error}") from None
    tensor._version[0] += 1
    if recorded:
        record_overwrite(tensor, value, at)


def record_overwrite(tensor: TensorBase, value: Any, at: Any) -> None:
    """Have the owner of ``tensor`` depend on ``value`` at the flat positions ``at``, elsewhere on its old self."""
    base, at = owner(tensor), np.asarray(at)
    if isinstance(value, TensorBase) and len(value.shape) > at.ndim:
        value = reshape(value, value.shape[len(value.shape) - at.ndim :])  # leading ones, which NumPy ignores
    result = overwrite(base, value, at)
    base._node, base._requires_grad = result._node, result._requires_grad
    base._version[1] += 1
