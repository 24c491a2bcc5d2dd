"""The Tensor: an array and its place in the graph.  Its operations are in methods.py."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from minigrad import devices, dtypes, numpy_bridge
from minigrad.arguments import as_array, sizes
from minigrad.devices import CPU, check_device
from minigrad.graph import Node, TensorBase, backward_pass
from minigrad.methods_inplace import InPlaceMethods
from minigrad.rules import elementwise


class Tensor(InPlaceMethods):
    """A NumPy array that remembers how it was computed, so that it can be differentiated.

    >>> import minigrad as mg
    >>> x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> loss = (x * x).sum()
    >>> loss.backward()
    >>> x.grad
    tensor([2., 4., 6.])

    Made by :func:`minigrad.tensor` and its kin.  Names and meaning of the methods are PyTorch's.
    """

    __slots__ = ()

    grad: Tensor | None
    """The derivatives that backward passes have added up here: a tensor of this shape and dtype, or None."""

    # --- what it is -------------------------------------------------------------------------------

    @property
    def data(self) -> Tensor:
        """The same memory outside the graph; assign a tensor to replace it.

        Raises:
            TypeError: something else than a tensor or an array is assigned.
        """
        return Tensor(self._data, version=self._version)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor | np.ndarray):
            raise TypeError(f"x.data = value needs a tensor, not {type(value).__name__}: mg.tensor(...)")
        self._data = as_array(value)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self._data.ndim

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one dimension.

        Raises:
            IndexError: there is no such dimension.
        """
        return self._data.shape if dim is None else self._data.shape[dim]

    def numel(self) -> int:
        """Return the number of elements."""
        return self._data.size

    nelement = numel

    @property
    def device(self) -> devices.device:
        """Always ``device("cpu")``, a string."""
        return CPU

    @property
    def is_cuda(self) -> bool:
        """False: there is only the CPU."""
        return False

    @property
    def itemsize(self) -> int:
        """The number of bytes of an element."""
        return self._data.itemsize

    def element_size(self) -> int:
        """Return the number of bytes of an element."""
        return self._data.itemsize

    @property
    def nbytes(self) -> int:
        """The number of bytes of all elements."""
        return self._data.nbytes

    @property
    def requires_grad(self) -> bool:
        """Whether a backward pass computes a gradient for this tensor; set it on leaves only.

        Raises:
            RuntimeError: it is set, but the dtype is not floating, or the tensor was computed from others.
        """
        return self.refresh()._requires_grad

    @requires_grad.setter
    def requires_grad(self, mode: bool) -> None:
        if mode and self.dtype.kind != "f":
            raise RuntimeError(f"only floating tensors can require a gradient, not {self.dtype}: use x.float()")
        if self._node is not None and not mode:
            raise RuntimeError("a tensor computed from others always requires its gradient: use x.detach()")
        self._requires_grad = bool(mode)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set :attr:`requires_grad` and return the tensor."""
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was made by the user rather than by a recorded operation."""
        return self.refresh()._node is None

    @property
    def grad_fn(self) -> Node | None:
        """The node that made the tensor; None for a leaf."""
        return self.refresh()._node

    def __len__(self) -> int:
        if not self._data.ndim:
            raise TypeError("a 0-d tensor has no length")
        return len(self._data)

    def __iter__(self) -> Iterator[Tensor]:
        if not self._data.ndim:
            raise TypeError("a 0-d tensor can't be iterated")
        return iter(self.unbind(0))

    def __bool__(self) -> bool:
        if self._data.size != 1:
            raise RuntimeError(f"the truth of a tensor of shape {self.shape} is ambiguous: use .any() or .all()")
        return bool(self._data.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise TypeError(f"only an integer tensor can be an index, not {self.dtype}")
        return int(self.item())

    def __contains__(self, value: Any) -> bool:
        return bool((self._data == as_array(value)).any())

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        values = np.array2string(self._data, separator=", ", prefix="tensor(", **print_options)
        notes = ""
        if self.dtype not in (dtypes.get_default_dtype(), dtypes.int64, dtypes.bool_):
            notes += f", dtype={self.dtype}"
        if self.grad_fn is not None:
            notes += f", grad_fn=<{self.grad_fn.name()}>"
        elif self._requires_grad:
            notes += ", requires_grad=True"
        return f"{type(self).__name__.lower()}({values}{notes})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and not self._data.ndim else format(str(self), spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("tensors are not pickled: use minigrad.save and minigrad.load")

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if self._node is not None:
            raise RuntimeError("only leaf tensors can be deep-copied: use x.detach().clone()")
        copy = type(self)(self._data.copy(), requires_grad=self._requires_grad)
        if self.grad is not None:
            copy.grad = Tensor(self.grad._data.copy())
        memo[id(self)] = copy
        return copy

    # --- to and from NumPy and Python -------------------------------------------------------------

    def item(self) -> Any:
        """Return the only element as a Python number.

        Raises:
            RuntimeError: there is not exactly one element.
        """
        if self._data.size != 1:
            raise RuntimeError(f"item() needs a tensor of one element, not of shape {self.shape}")
        return self._data.item()

    def tolist(self) -> Any:
        """Return the elements as nested Python lists (a number for a 0-d tensor)."""
        return self._data.tolist()

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the array itself: the same memory.

        Raises:
            RuntimeError: the tensor requires a gradient, which the array could not carry on.
        """
        if self.requires_grad:
            raise RuntimeError("a tensor that requires a gradient can't become an array: use x.detach().numpy()")
        return self._data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return numpy_bridge.call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return numpy_bridge.call_function(function, args, kwargs)

    def detach(self) -> Tensor:
        """Return the same memory outside the graph."""
        return Tensor(self._data, version=self._version)

    def cpu(self) -> Self:
        """Return the tensor: it is always on the CPU."""
        return self

    def cuda(self, device: Any = None) -> Self:
        """Refuse: there is no GPU here.

        Raises:
            RuntimeError: always.
        """
        check_device("cuda")
        return self

    def contiguous(self) -> Tensor:
        """Return the tensor with its elements in row-major order in memory, copied only if need be."""
        return self if self._data.flags.c_contiguous else elementwise.contiguous(self)

    def is_contiguous(self) -> bool:
        """Return whether the elements are in row-major order in memory."""
        return bool(self._data.flags.c_contiguous)

    def stride(self, dim: Any = None) -> Any:
        """Return how many elements apart neighbours along each dimension lie, or along one."""
        strides = tuple(step // self._data.itemsize for step in self._data.strides)
        return strides if dim is None else strides[dim]

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return int(self._data.ctypes.data)

    # --- dtype ------------------------------------------------------------------------------------

    def to(self, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False) -> Tensor:
        """Return the tensor in another dtype: ``x.to(mg.float64)``, ``x.to("cpu")``, ``x.to(other)``.

        Gradients flow back through it in the dtype of this tensor.

        Args:
            args: a dtype, a device, or a tensor whose dtype is meant.
            dtype: the same by name.
            device: the same by name; None or "cpu".
            copy: make a copy even if the dtype is this one; else the tensor itself is returned then.

        Raises:
            RuntimeError: a device other than "cpu" is named.
            TypeError: the dtype is none, or has no place here.
        """
        for argument in args:
            if isinstance(argument, Tensor):
                dtype = argument.dtype
            elif isinstance(argument, str) and argument.partition(":")[0] in ("cpu", "cuda", "mps", "xpu"):
                device = argument
            elif isinstance(argument, bool):
                continue  # PyTorch's non_blocking: nothing blocks here
            else:
                dtype = argument
        check_device(device)
        if dtype is None or dtypes.as_dtype(dtype) == self.dtype:
            return self.clone() if copy else self
        chosen = np.dtype(dtype)
        return elementwise.cast(self if chosen.kind == "f" else self.detach(), chosen)

    def type(self, dtype: Any) -> Tensor:
        """Return the tensor in another dtype."""
        return self.to(dtype)

    astype = type

    def type_as(self, other: Tensor) -> Tensor:
        """Return the tensor in the dtype of ``other``."""
        return self.to(other.dtype)

    def float(self) -> Tensor:
        """Return the tensor in float32."""
        return self.to(dtypes.float32)

    def double(self) -> Tensor:
        """Return the tensor in float64."""
        return self.to(dtypes.float64)

    def half(self) -> Tensor:
        """Return the tensor in float16."""
        return self.to(dtypes.float16)

    def long(self) -> Tensor:
        """Return the tensor in int64, fractions dropped."""
        return self.to(dtypes.int64)

    def int(self) -> Tensor:
        """Return the tensor in int32, fractions dropped."""
        return self.to(dtypes.int32)

    def short(self) -> Tensor:
        """Return the tensor in int16, fractions dropped."""
        return self.to(dtypes.int16)

    def byte(self) -> Tensor:
        """Return the tensor in uint8, fractions dropped."""
        return self.to(dtypes.uint8)

    def bool(self) -> Tensor:
        """Return whether each element differs from zero."""
        return self.to(dtypes.bool_)

    def is_floating_point(self) -> Any:
        """Return whether the dtype is a floating one."""
        return self.dtype.kind == "f"

    # --- more like this one -----------------------------------------------------------------------

    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False
    ) -> Tensor:
        """Return a tensor made from a copy of ``data``, in this one's dtype."""
        check_device(device)
        array = np.array(as_array(data), dtypes.as_dtype(dtype or self.dtype), order="C")
        return Tensor(array).requires_grad_(requires_grad)

    def new_full(
        self, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False
    ) -> Tensor:
        """Return a tensor of shape ``size`` with every element ``fill_value``, in this one's dtype."""
        check_device(device)
        array = np.full(sizes((size,)), as_array(fill_value), dtypes.as_dtype(dtype or self.dtype))
        return Tensor(array).requires_grad_(requires_grad)

    def new_zeros(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: Any = False) -> Tensor:
        """Return zeros of shape ``size``, in this one's dtype."""
        return self.new_full(sizes(size), 0, dtype=dtype, device=device, requires_grad=requires_grad)

    def new_ones(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: Any = False) -> Tensor:
        """Return ones of shape ``size``, in this one's dtype."""
        return self.new_full(sizes(size), 1, dtype=dtype, device=device, requires_grad=requires_grad)

    new_empty = new_zeros

    # --- gradients --------------------------------------------------------------------------------

    def backward(
        self, gradient: Tensor | None = None, retain_graph: Any = None, create_graph: Any = False
    ) -> None:
        """Add to the ``grad`` of every leaf below the derivative of this tensor with respect to it.

        Args:
            gradient: dL/dself, of this tensor's shape, where L is what is really differentiated; a tensor of
                one element needs none: it is L.
            retain_graph: keep the graph for another backward pass.
            create_graph: make the gradients differentiable themselves.

        Raises:
            RuntimeError: the tensor has no graph; or a ``gradient`` is missing or of another shape; or the graph
                was freed; or a tensor that a rule needs has been modified in place.
        """
        outputs, cotangents = start_of_backward([self], [gradient], create_graph)
        gradients = backward_pass(outputs, cotangents, create_graph=create_graph, retain_graph=bool(retain_graph))
        for leaf, grad in gradients.items():
            accumulate(leaf, grad)

    def retain_grad(self) -> None:
        """Keep this tensor's gradient in ``grad`` at the next backward pass, though it is not a leaf.

        Raises:
            RuntimeError: the tensor does not require a gradient.
        """
        if not self.requires_grad:
            raise RuntimeError("retain_grad() is for tensors that require a gradient")
        if self._node is None:
            return
        if any(hasattr(hook, "retains_grad") for hook in self._node.hooks or ()):
            return
        reference = weakref.ref(self)  # the node must not keep its own result alive

        def keep(gradient: Any) -> Any:
            tensor = reference()
            if tensor is not None:
                copy = gradient if isinstance(gradient, Tensor) else Tensor(np.array(gradient))
                tensor.grad = copy if tensor.grad is None else tensor.grad + copy
            return gradient

        keep.retains_grad = True  # type: ignore[attr-defined]
        add_hook(self, keep)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> HookHandle:
        """Call ``hook(gradient)`` when this tensor's gradient is complete; what it returns replaces it.

        Raises:
            RuntimeError: the tensor does not require a gradient.
        """
        if not self.requires_grad:
            raise RuntimeError("register_hook() is for tensors that require a gradient")

        def call(gradient: Any) -> Any:
            recorded = isinstance(gradient, Tensor)
            replaced = hook(gradient if recorded else Tensor(np.array(gradient)))
            if replaced is None:
                return gradient
            return replaced if recorded else replaced._data

        return add_hook(self, call)


TensorBase.result_class = Tensor


class HookHandle:
    """What :meth:`Tensor.register_hook` returns: :meth:`remove` takes the hook away again."""

    def __init__(self, hooks: list[Callable[[Any], Any]], hook: Callable[[Any], Any]) -> None:
        self.hooks, self.hook = hooks, hook

    def remove(self) -> None:
        """Don't call the hook any more."""
        if self.hook in self.hooks:
            self.hooks.remove(self.hook)


def add_hook(tensor: Tensor, hook: Callable[[Any], Any]) -> HookHandle:
    """Have ``hook`` called with the tensor's gradient, an array or with ``create_graph`` a Tensor."""
    if tensor._node is None:
        hooks = tensor._hooks = tensor._hooks or []
    else:
        hooks = tensor._node.hooks = tensor._node.hooks or []
    hooks.append(hook)
    return HookHandle(hooks, hook)


print_options: dict[str, Any] = {}
"""What :func:`minigrad.set_printoptions` has chosen, in NumPy's words."""


def start_of_backward(
    outputs: Sequence[Tensor], gradients: Sequence[Tensor | None], as_tensors: bool
) -> tuple[list[Any], list[Any]]:
    """Return the nodes and the cotangents that a backward pass starts from, checked.

    Raises:
        RuntimeError: an output has no graph, or its cotangent is missing or of another shape.
    """
    nodes, cotangents = [], []
    for output, gradient in zip(outputs, gradients, strict=True):
        if not output.requires_grad:
            raise RuntimeError(
                "this tensor does not require a gradient and was not computed from one that does: "
                "make an input with requires_grad=True, outside no_grad()"
            )
        if gradient is None:
            if output._data.size != 1:
                raise RuntimeError(
                    f"a gradient is only implied for an output of one element, not of shape {output.shape}: "
                    "reduce it (loss.sum(), loss.mean()), or pass the gradient"
                )
            gradient = Tensor(np.ones_like(output._data))
        elif gradient.shape != output.shape:
            raise RuntimeError(f"the gradient has shape {gradient.shape}, its output {output.shape}")
        nodes.append(output._node or output)
        cotangents.append(gradient if as_tensors else gradient._data)
    return nodes, cotangents


def accumulate(leaf: Any, gradient: Any) -> None:
    """Add a gradient to ``leaf.grad``: in place where it is an array, as a recorded sum where it is a Tensor."""
    if isinstance(gradient, Tensor):
        leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient
    elif leaf.grad is None:
        leaf.grad = Tensor(gradient)
    else:
        leaf.grad._data += gradient
        leaf.grad._version[0] += 1
