"""The Tensor: an array, its place in the graph, and every operation as a method or an operator."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from minigrad import devices, dtypes, inplace, numpy_bridge
from minigrad.devices import CPU, check_device
from minigrad.graph import Node, TensorBase, backward_pass
from minigrad.kernels import activation
from minigrad.kernels import softmax as softmax_kernel
from minigrad.rules import elementwise, indexing, linalg, reduce, shape


class ValuesAndIndices(NamedTuple):
    """What ``max``, ``min``, ``sort`` and ``topk`` over one dimension return."""

    values: Tensor
    indices: Tensor


class Tensor(TensorBase):
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

    # --- what it is -------------------------------------------------------------------------------

    @property
    def data(self) -> Tensor:
        """The same memory outside the graph; assign a tensor to replace it."""
        return Tensor(self._data, version=self._version)

    @data.setter
    def data(self, value: Tensor) -> None:
        self._data = as_array(value)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self._data.ndim

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one dimension."""
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

        Raises (when set):
            RuntimeError: the dtype is not floating, or the tensor was computed from others.
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
        """Raise: there is no GPU here.

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

        Raises:
            RuntimeError: a device other than "cpu" is named.
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
        for leaf, grad in backward_pass(
            outputs, cotangents, create_graph=create_graph, retain_graph=bool(retain_graph)
        ).items():
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

    # --- operators --------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Tensor:
        return elementwise.add(self, other)

    def __radd__(self, other: Any) -> Tensor:
        return elementwise.add(other, self)

    def __sub__(self, other: Any) -> Tensor:
        return elementwise.sub(self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return elementwise.sub(other, self)

    def __mul__(self, other: Any) -> Tensor:
        return elementwise.mul(self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return elementwise.mul(other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return elementwise.div(self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return elementwise.div(other, self)

    def __pow__(self, other: Any) -> Tensor:
        return elementwise.pow(self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return elementwise.pow(other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return linalg.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return linalg.matmul(other, self)

    def __mod__(self, other: Any) -> Tensor:
        return elementwise.remainder(self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return elementwise.remainder(other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return elementwise.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return elementwise.floor_divide(other, self)

    def __neg__(self) -> Tensor:
        return elementwise.neg(self)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return elementwise.abs(self)

    def __invert__(self) -> Tensor:
        if self.dtype.kind == "f":
            raise TypeError(f"~x is for integers and booleans, not {self.dtype}")
        return elementwise.bitwise_not(self)

    def __and__(self, other: Any) -> Tensor:
        return elementwise.bitwise_and(self, other)

    def __or__(self, other: Any) -> Tensor:
        return elementwise.bitwise_or(self, other)

    def __xor__(self, other: Any) -> Tensor:
        return elementwise.bitwise_xor(self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: Any) -> Tensor:
        return elementwise.left_shift(self, other)

    def __rshift__(self, other: Any) -> Tensor:
        return elementwise.right_shift(self, other)

    def __eq__(self, other: object) -> Any:
        return elementwise.eq(self, other)

    def __ne__(self, other: object) -> Any:
        return elementwise.ne(self, other)

    def __lt__(self, other: Any) -> Tensor:
        return elementwise.lt(self, other)

    def __le__(self, other: Any) -> Tensor:
        return elementwise.le(self, other)

    def __gt__(self, other: Any) -> Tensor:
        return elementwise.gt(self, other)

    def __ge__(self, other: Any) -> Tensor:
        return elementwise.ge(self, other)

    def __getitem__(self, index: Any) -> Tensor:
        return indexing.getitem(self, as_index(index, copy=self.requires_grad))

    # --- elementwise, as methods ------------------------------------------------------------------

    add = elementwise.add
    sub = subtract = elementwise.sub
    mul = multiply = elementwise.mul
    neg = negative = elementwise.neg
    pow = elementwise.pow
    square = elementwise.square
    reciprocal = elementwise.reciprocal
    exp = elementwise.exp
    expm1 = elementwise.expm1
    log = elementwise.log
    log2 = elementwise.log2
    log10 = elementwise.log10
    exp2 = elementwise.exp2
    log1p = elementwise.log1p
    sqrt = elementwise.sqrt
    rsqrt = elementwise.rsqrt
    sin = elementwise.sin
    cos = elementwise.cos
    tan = elementwise.tan
    asin = arcsin = elementwise.asin
    acos = arccos = elementwise.acos
    atan = arctan = elementwise.atan
    atan2 = arctan2 = elementwise.atan2
    sinh = elementwise.sinh
    cosh = elementwise.cosh
    tanh = elementwise.tanh
    sigmoid = elementwise.sigmoid
    relu = elementwise.relu
    erf = elementwise.erf
    abs = elementwise.abs
    maximum = elementwise.maximum
    minimum = elementwise.minimum
    clamp = clip = elementwise.clamp
    masked_fill = elementwise.masked_fill
    sign = elementwise.sign
    floor = elementwise.floor
    ceil = elementwise.ceil
    trunc = fix = elementwise.trunc
    round = elementwise.round
    nan_to_num = elementwise.nan_to_num
    remainder = elementwise.remainder
    floor_divide = elementwise.floor_divide
    clone = elementwise.clone
    eq = elementwise.eq
    ne = not_equal = elementwise.ne
    lt = less = elementwise.lt
    le = less_equal = elementwise.le
    gt = greater = elementwise.gt
    ge = greater_equal = elementwise.ge
    logical_and = elementwise.logical_and
    logical_or = elementwise.logical_or
    logical_xor = elementwise.logical_xor
    logical_not = elementwise.logical_not
    bitwise_and = elementwise.bitwise_and
    bitwise_or = elementwise.bitwise_or
    bitwise_xor = elementwise.bitwise_xor
    bitwise_not = elementwise.bitwise_not
    isclose = elementwise.isclose
    isfinite = elementwise.isfinite
    isinf = elementwise.isinf
    isnan = elementwise.isnan

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """Return this tensor divided by ``other``: :func:`minigrad.div`."""
        return divide(self, other, rounding_mode)

    divide = true_divide = div

    def addcmul(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """Return ``self + value · tensor1 · tensor2``."""
        return elementwise.addcmul(self, tensor1, tensor2, value=value)  # type: ignore[no-any-return]

    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """Return ``self + value · tensor1 / tensor2``."""
        return elementwise.addcdiv(self, tensor1, tensor2, value=value)  # type: ignore[no-any-return]

    def frac(self) -> Tensor:
        """Return each element without its integer part."""
        return elementwise.frac(self)  # type: ignore[no-any-return]

    def lerp(self, end: Any, weight: Any) -> Tensor:
        """Return ``self + weight · (end − self)``."""
        return elementwise.lerp(self, end, weight)  # type: ignore[no-any-return]

    def equal(self, other: Any) -> Any:
        """Return whether both have the same shape and elements: a bool."""
        return np.array_equal(self._data, as_array(other))

    def allclose(self, other: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False) -> Any:
        """Return whether |self − other| ≤ atol + rtol · |other| for all elements: a bool."""
        return elementwise.isclose(self, other, rtol, atol, equal_nan).all().item()

    def where(self, condition: Tensor, other: Any) -> Tensor:
        """Return this tensor where ``condition`` is true, else ``other``."""
        return elementwise._where(condition, self, other)

    # --- reductions -------------------------------------------------------------------------------

    sum = reduce.sum
    mean = reduce.mean
    var = reduce.var
    std = reduce.std
    amax = reduce.amax
    amin = reduce.amin
    argmax = reduce.argmax
    argmin = reduce.argmin
    logsumexp = reduce.logsumexp
    cumsum = reduce.cumsum
    prod = reduce.prod
    cumprod = reduce.cumprod
    count_nonzero = reduce.count_nonzero
    all = reduce.all
    any = reduce.any

    def norm(self, p: Any = 2, dim: Any = None, keepdim: Any = False) -> Tensor:
        """Return the p-norm over ``dim``: :func:`minigrad.norm`."""
        return reduce.norm(self, p, dim, keepdim)

    def max(self, dim: Any = None, keepdim: Any = False, **aliases: Any) -> Any:
        """Return the largest element; over one dimension, or against a tensor: :func:`minigrad.max`."""
        return extreme(reduce.amax, reduce.argmax, elementwise.maximum, self, dim, keepdim, **aliases)

    def min(self, dim: Any = None, keepdim: Any = False, **aliases: Any) -> Any:
        """Return the smallest element; over one dimension, or against a tensor: :func:`minigrad.min`."""
        return extreme(reduce.amin, reduce.argmin, elementwise.minimum, self, dim, keepdim, **aliases)

    # --- shape ------------------------------------------------------------------------------------

    def reshape(self, *shape_: Any) -> Tensor:
        """Return the same elements under another shape: ``x.reshape(2, -1)`` or ``x.reshape((2, -1))``."""
        return shape.reshape(self, sizes(shape_))

    def view(self, *shape_: Any) -> Tensor:
        """Return the same memory under another shape.

        Raises:
            RuntimeError: the elements don't lie in memory so that it can be had without copying.
        """
        out = shape.reshape(self, sizes(shape_))
        if self._data.size and not np.shares_memory(out._data, self._data):
            raise RuntimeError(
                f"a tensor of shape {self.shape} with strides {self._data.strides} (bytes) has no view of shape "
                f"{sizes(shape_)} without copying: use .reshape(...), or .contiguous().view(...)"
            )
        return out

    def view_as(self, other: Tensor) -> Tensor:
        """Return the same memory under the shape of ``other``."""
        return self.view(other.shape)

    def reshape_as(self, other: Tensor) -> Tensor:
        """Return the same elements under the shape of ``other``."""
        return self.reshape(other.shape)

    def permute(self, *dims: Any) -> Tensor:
        """Return the dimensions in another order: ``x.permute(2, 0, 1)``.  A view."""
        return shape.permute(self, sizes(dims))

    def expand(self, *sizes_: Any) -> Tensor:
        """Return the tensor broadcast to a shape, without copying; −1 keeps a size."""
        return shape.expand(self, sizes(sizes_))

    def expand_as(self, other: Tensor) -> Tensor:
        """Return the tensor broadcast to the shape of ``other``, without copying."""
        return shape.expand(self, other.shape)

    def repeat(self, *repeats: Any) -> Tensor:
        """Return the tensor laid side by side: ``x.repeat(2, 1)``."""
        return shape.repeat(self, sizes(repeats))

    def flatten(self, start_dim: Any = 0, end_dim: Any = -1) -> Tensor:
        """Return the dimensions from ``start_dim`` to ``end_dim`` joined into one."""
        if not self.ndim:
            return self.reshape(1)
        (start,), (end,) = reduce.normalize(start_dim, self.ndim), reduce.normalize(end_dim, self.ndim)
        if start > end:
            raise RuntimeError(f"flatten() needs start_dim <= end_dim, not {start_dim} and {end_dim}")
        joined = int(np.prod(self.shape[start : end + 1]))
        return self.reshape(*self.shape[:start], joined, *self.shape[end + 1 :])

    def ravel(self) -> Tensor:
        """Return all elements as a vector."""
        return self.reshape(-1)

    def unflatten(self, dim: Any, sizes_: Any) -> Tensor:
        """Return ``dim`` taken apart into dimensions of these sizes, of which one may be −1."""
        (dim,) = reduce.normalize(dim, self.ndim)
        apart = np.broadcast_to(0, self.shape[dim]).reshape(sizes((sizes_,))).shape  # works out the −1
        return self.reshape(*self.shape[:dim], *apart, *self.shape[dim + 1 :])

    def broadcast_to(self, size: Any) -> Tensor:
        """Return the tensor broadcast to a shape, without copying."""
        return self.expand(size)

    transpose = swapaxes = swapdims = shape.transpose
    diagonal = shape.diagonal
    squeeze = shape.squeeze
    unsqueeze = shape.unsqueeze
    roll = shape.roll
    tril = shape.tril
    triu = shape.triu

    def flip(self, *dims: Any) -> Tensor:
        """Return the elements in reverse order along ``dims``."""
        return shape.flip(self, sizes(dims))

    def movedim(self, source: Any, destination: Any) -> Tensor:
        """Return the dimensions ``source`` moved to the places ``destination``: a view."""
        return shape.movedim(self, source, destination)

    moveaxis = movedim

    def tile(self, *dims: Any) -> Tensor:
        """Return the tensor laid side by side, dimensions counted from the last."""
        return shape.tile(self, sizes(dims))

    def diag(self, diagonal: Any = 0) -> Tensor:
        """Return a vector as a diagonal matrix, or the diagonal of a matrix."""
        return shape.diag(self, diagonal)

    def trace(self) -> Tensor:
        """Return the sum of the diagonal of a matrix."""
        return shape.trace(self)

    def narrow(self, dim: Any, start: Any, length: Any) -> Tensor:
        """Return the ``length`` slices of ``dim`` from ``start`` on: a view."""
        return indexing.narrow(self, dim, start, length)

    def select(self, dim: Any, index: Any) -> Tensor:
        """Return the slice of ``dim`` at one index: a view."""
        return indexing.select(self, dim, index)

    def t(self) -> Tensor:
        """Return the transpose of a matrix (a vector unchanged)."""
        if self.ndim > 2:
            raise RuntimeError(f"t() is for at most 2 dimensions, not {self.ndim}: use .mT or .transpose(...)")
        return self.T

    @property
    def T(self) -> Tensor:
        """All dimensions in reverse order."""
        return shape.permute(self, tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged."""
        return shape.transpose(self, -1, -2)

    def split(self, split_size: Any, dim: Any = 0) -> tuple[Tensor, ...]:
        """Return the pieces of one size, or of the sizes listed, along ``dim``: views."""
        return shape.split(self, split_size, dim)

    def chunk(self, chunks: Any, dim: Any = 0) -> tuple[Tensor, ...]:
        """Return ``chunks`` pieces along ``dim``: views."""
        return shape.chunk(self, chunks, dim)

    def unbind(self, dim: Any = 0) -> tuple[Tensor, ...]:
        """Return the slices along ``dim``: views."""
        return shape.unbind(self, dim)

    # --- products and indexing --------------------------------------------------------------------

    matmul = linalg.matmul

    def bmm(self, other: Tensor) -> Tensor:
        """Return the matrix products of two batches."""
        return linalg.bmm(self, other)

    def dot(self, other: Tensor) -> Tensor:
        """Return the inner product of two vectors."""
        return linalg.dot(self, other)

    def mm(self, mat2: Tensor) -> Tensor:
        """Return the product of two matrices."""
        return linalg.mm(self, mat2)

    def mv(self, vec: Tensor) -> Tensor:
        """Return the product of a matrix and a vector."""
        return linalg.mv(self, vec)

    def outer(self, vec2: Tensor) -> Tensor:
        """Return the outer product of two vectors."""
        return linalg.outer(self, vec2)

    argsort = indexing.argsort

    def sort(self, dim: Any = -1, descending: Any = False, stable: Any = True) -> ValuesAndIndices:
        """Return the elements in order along ``dim``, and where they stood: :func:`minigrad.sort`."""
        return ValuesAndIndices(*indexing.sort(self, dim, descending, stable))

    def topk(self, k: Any, dim: Any = -1, largest: Any = True, sorted: Any = True) -> ValuesAndIndices:
        """Return the ``k`` largest or smallest elements, and where they stood: :func:`minigrad.topk`."""
        return ValuesAndIndices(*indexing.topk(self, k, dim, largest, sorted))

    def gather(self, dim: Any, index: Tensor) -> Tensor:
        """Return elements picked along ``dim``: :func:`minigrad.gather`."""
        return indexing.gather(self, dim, index)

    def index_select(self, dim: Any, index: Tensor) -> Tensor:
        """Return the slices along ``dim`` at the positions in ``index``."""
        return indexing.index_select(self, dim, index)

    def scatter_add(self, dim: Any, index: Tensor, src: Tensor) -> Tensor:
        """Return the tensor with ``src`` added at ``index`` along ``dim``."""
        return indexing.scatter_add(self, dim, index, src)

    def scatter(self, dim: Any, index: Tensor, src: Any) -> Tensor:
        """Return the tensor overwritten by ``src`` at ``index`` along ``dim``: :func:`minigrad.scatter`."""
        return indexing.scatter(self, dim, index, src)

    def index_add(self, dim: Any, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
        """Return the tensor with the slices of ``alpha · source`` added at ``index`` along ``dim``."""
        return indexing.index_add(self, dim, index, source, alpha)

    def index_fill(self, dim: Any, index: Tensor, value: Any) -> Tensor:
        """Return the tensor with ``value`` in the slices at ``index`` along ``dim``."""
        return indexing.index_fill(self, dim, index, value)

    def take_along_dim(self, indices: Tensor, dim: Any = None) -> Tensor:
        """Return elements picked along ``dim``, other dimensions broadcast."""
        return indexing.take_along_dim(self, indices, dim)

    def masked_select(self, mask: Tensor) -> Tensor:
        """Return the elements where ``mask`` is true, as a vector."""
        return indexing.masked_select(self, mask)

    def repeat_interleave(self, repeats: Any, dim: Any = None) -> Tensor:
        """Return each slice along ``dim`` repeated in a row: :func:`minigrad.repeat_interleave`."""
        return indexing.repeat_interleave(self, repeats, dim)

    def unique(self, sorted: Any = True, return_inverse: Any = False, return_counts: Any = False) -> Any:
        """Return the different elements in ascending order: :func:`minigrad.unique`."""
        return indexing.unique(self, sorted, return_inverse, return_counts)

    def bincount(self, weights: Tensor | None = None, minlength: Any = 0) -> Tensor:
        """Return how often each of 0, 1, … occurs: :func:`minigrad.bincount`."""
        return indexing.bincount(self, weights, minlength)

    def nonzero(self, as_tuple: Any = False) -> Any:
        """Return the indices of the elements that are not zero: (n, ndim), or a tuple of ndim vectors."""
        if as_tuple:
            return tuple(map(Tensor, np.nonzero(np.atleast_1d(self._data))))
        return Tensor(np.argwhere(self._data))

    # --- softmax and kin --------------------------------------------------------------------------

    softmax = softmax_kernel.softmax
    log_softmax = softmax_kernel.log_softmax
    gelu = activation.gelu

    # --- in place ---------------------------------------------------------------------------------

    def _in_place(self, operation: Callable[..., Tensor], *arguments: Any) -> Self:
        """Overwrite the elements by ``operation(self, *arguments)``.

        Raises:
            RuntimeError: a leaf that requires a gradient is written while operations are recorded, the memory is
                read-only, or the result doesn't fit it.
        """
        inplace.replace(self, operation(self, *arguments), getattr(operation, "name", operation.__name__))
        return self

    def __iadd__(self, other: Any) -> Self:
        return self._in_place(elementwise.add, other)

    def __isub__(self, other: Any) -> Self:
        return self._in_place(elementwise.sub, other)

    def __imul__(self, other: Any) -> Self:
        return self._in_place(elementwise.mul, other)

    def __itruediv__(self, other: Any) -> Self:
        return self._in_place(elementwise.div, other)

    def __ipow__(self, other: Any) -> Self:
        return self._in_place(elementwise.pow, other)

    def __iand__(self, other: Any) -> Self:
        return self._in_place(elementwise.bitwise_and, other)

    def __ior__(self, other: Any) -> Self:
        return self._in_place(elementwise.bitwise_or, other)

    def add_(self, other: Any, *, alpha: Any = 1) -> Self:
        """Add ``alpha · other`` in place."""
        return self._in_place(elementwise.add, other if alpha == 1 else alpha * other)

    def sub_(self, other: Any, *, alpha: Any = 1) -> Self:
        """Subtract ``alpha · other`` in place."""
        return self._in_place(elementwise.sub, other if alpha == 1 else alpha * other)

    def mul_(self, other: Any) -> Self:
        """Multiply in place."""
        return self._in_place(elementwise.mul, other)

    def div_(self, other: Any) -> Self:
        """Divide in place."""
        return self._in_place(elementwise.div, other)

    def exp_(self) -> Self:
        """Overwrite each element x by eˣ."""
        return self._in_place(elementwise.exp)

    def sqrt_(self) -> Self:
        """Overwrite each element x by √x."""
        return self._in_place(elementwise.sqrt)

    def log_(self) -> Self:
        """Overwrite each element x by ln x."""
        return self._in_place(elementwise.log)

    def tanh_(self) -> Self:
        """Overwrite each element x by tanh x."""
        return self._in_place(elementwise.tanh)

    def sigmoid_(self) -> Self:
        """Overwrite each element x by 1 / (1 + e⁻ˣ)."""
        return self._in_place(elementwise.sigmoid)

    def relu_(self) -> Self:
        """Overwrite each element x by max(x, 0)."""
        return self._in_place(elementwise.relu)

    def neg_(self) -> Self:
        """Overwrite each element x by −x."""
        return self._in_place(elementwise.neg)

    def abs_(self) -> Self:
        """Overwrite each element x by |x|."""
        return self._in_place(elementwise.abs)

    def floor_(self) -> Self:
        """Overwrite each element x by ⌊x⌋."""
        return self._in_place(elementwise.floor)

    def ceil_(self) -> Self:
        """Overwrite each element x by ⌈x⌉."""
        return self._in_place(elementwise.ceil)

    def round_(self) -> Self:
        """Overwrite each element x by the nearest integers."""
        return self._in_place(elementwise.round)

    def square_(self) -> Self:
        """Overwrite each element x by x²."""
        return self._in_place(elementwise.square)

    def reciprocal_(self) -> Self:
        """Overwrite each element x by 1 / x."""
        return self._in_place(elementwise.reciprocal)

    def rsqrt_(self) -> Self:
        """Overwrite each element x by 1 / √x."""
        return self._in_place(elementwise.rsqrt)

    def sin_(self) -> Self:
        """Overwrite each element x by sin x."""
        return self._in_place(elementwise.sin)

    def cos_(self) -> Self:
        """Overwrite each element x by cos x."""
        return self._in_place(elementwise.cos)

    def pow_(self, exponent: Any) -> Self:
        """Raise to a power in place."""
        return self._in_place(elementwise.pow, exponent)

    def addcmul_(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Self:
        """Add ``value · tensor1 · tensor2`` in place."""
        return self._in_place(elementwise.add, value * tensor1 * tensor2)

    def addcdiv_(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Self:
        """Add ``value · tensor1 / tensor2`` in place."""
        return self._in_place(elementwise.add, value * tensor1 / tensor2)

    def lerp_(self, end: Any, weight: Any) -> Self:
        """Move towards ``end`` in place: x + weight · (end − x)."""
        return self._in_place(elementwise.lerp, end, weight)

    def scatter_(self, dim: Any, index: Tensor, src: Any = None, *, value: Any = None) -> Self:
        """Overwrite the elements at ``index`` along ``dim`` by ``src``, a tensor or a number."""
        return self._in_place(indexing.scatter, dim, index, src if value is None else value)

    def scatter_add_(self, dim: Any, index: Tensor, src: Tensor) -> Self:
        """Add ``src`` at ``index`` along ``dim`` in place."""
        return self._in_place(indexing.scatter_add, dim, index, src)

    def index_add_(self, dim: Any, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Self:
        """Add the slices of ``alpha · source`` at ``index`` along ``dim`` in place."""
        return self._in_place(indexing.index_add, dim, index, source, alpha)

    def index_fill_(self, dim: Any, index: Tensor, value: Any) -> Self:
        """Overwrite the slices at ``index`` along ``dim`` by ``value``."""
        return self._in_place(indexing.index_fill, dim, index, value)

    def uniform_(self, low: Any = 0.0, high: Any = 1.0, *, generator: Any = None) -> Self:
        """Overwrite the elements by uniform numbers in [low, high)."""
        from minigrad.random import rand

        return self.copy_(rand(self.shape, generator=generator, dtype=self.dtype) * (high - low) + low)

    def normal_(self, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None) -> Self:
        """Overwrite the elements by normal numbers."""
        from minigrad.random import randn

        return self.copy_(randn(self.shape, generator=generator, dtype=self.dtype) * std + mean)

    def fill_diagonal_(self, fill_value: Any) -> Self:
        """Overwrite the diagonal of a matrix by ``fill_value``."""
        if self.ndim != 2:
            raise RuntimeError(f"fill_diagonal_() is for matrices, not shape {self.shape}")
        self.diagonal().fill_(fill_value)
        return self

    def clamp_(self, min: Any = None, max: Any = None) -> Self:
        """Limit to [min, max] in place."""
        return self._in_place(elementwise.clamp, min, max)

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        """Overwrite the elements where ``mask`` is true by ``value``."""
        return self._in_place(elementwise.masked_fill, mask, value)

    def copy_(self, source: Any) -> Self:
        """Overwrite the elements by those of ``source``, which broadcasts."""
        self[...] = source
        return self

    def fill_(self, value: Any) -> Self:
        """Overwrite every element by ``value``."""
        return self.copy_(value)

    def zero_(self) -> Self:
        """Overwrite every element by 0."""
        return self.copy_(0)

    def __setitem__(self, index: Any, value: Any) -> None:
        inplace.assign(self, as_index(index), value)


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
    owner = tensor if tensor._node is None else None
    hooks = tensor._hooks if owner is not None else tensor._node.hooks  # type: ignore[union-attr]
    if hooks is None:
        hooks = []
        if owner is not None:
            tensor._hooks = hooks
        else:
            tensor._node.hooks = hooks  # type: ignore[union-attr]
    hooks.append(hook)
    return HookHandle(hooks, hook)


def extent(arguments: Sequence[Any]) -> tuple[int, ...]:
    """Return :func:`sizes` of a tensor to be made.

    Raises:
        RuntimeError: a size is negative.
    """
    shape_ = sizes(arguments)
    if shape_ and min(shape_) < 0:
        raise RuntimeError(f"a tensor can't have a negative size: {shape_}")
    return shape_


print_options: dict[str, Any] = {}
"""What :func:`minigrad.set_printoptions` has chosen, in NumPy's words."""


# --- shared by methods and functions --------------------------------------------------------------


def as_array(value: Any) -> Any:
    """Return the array of a Tensor; anything else unchanged."""
    return value._data if isinstance(value, TensorBase) else value


def as_index(index: Any, copy: bool = False) -> Any:
    """Return an index with the Tensors in it, and lists with Tensors in them, as arrays.

    A rule needs the index as it was: with ``copy`` no later write to its arrays can change it.
    """
    if isinstance(index, TensorBase | np.ndarray):
        array = as_array(index)
        return array.copy() if copy else array
    if isinstance(index, tuple):
        return tuple(as_index(part, copy) for part in index)
    if isinstance(index, list):
        return np.asarray([as_array(part) for part in index]) if index else np.asarray(index, dtype=np.int64)
    return index


def sizes(arguments: Sequence[Any]) -> tuple[int, ...]:
    """Return (2, 3) for the arguments ``2, 3`` as for ``(2, 3)``.

    >>> sizes((2, 3)), sizes(((2, 3),)), sizes(([],))
    ((2, 3), (2, 3), ())
    """
    if len(arguments) == 1 and isinstance(arguments[0], tuple | list):
        arguments = arguments[0]
    return tuple(int(n) for n in arguments)


def divide(x: Any, y: Any, rounding_mode: str | None = None) -> Tensor:
    """Return x / y: as it is, rounded down ("floor") or towards 0 ("trunc").

    Raises:
        RuntimeError: another ``rounding_mode``.
    """
    if rounding_mode is None:
        return elementwise.div(x, y)
    if rounding_mode == "floor":
        return elementwise.floor_divide(x, y)
    if rounding_mode != "trunc":
        raise RuntimeError(f'rounding_mode is None, "trunc" or "floor", not {rounding_mode!r}')
    quotient = elementwise.div(x, y)
    if elementwise.mul(x, y).dtype.kind == "f":
        return elementwise.trunc(quotient)
    down = elementwise.floor_divide(x, y)  # of integers: exact, whatever their size
    correction = ((down * y != x) & (down < 0)).to(down.dtype)
    return elementwise.add(down, correction)


def extreme(
    reduction: Any, arg: Any, pairwise: Any, x: Any, dim: Any, keepdim: Any = False, **aliases: Any
) -> Any:
    """Return what PyTorch's ``max`` and ``min`` do: of all, over a dimension with indices, or of two tensors."""
    dim = aliases.pop("axis", aliases.pop("other", dim))
    keepdim = aliases.pop("keepdims", keepdim)
    if aliases:
        raise TypeError(
            f"{reduction.name[1:]}() has no argument '{next(iter(aliases))}'; it takes (x, dim, keepdim)"
        )
    if dim is None:
        return reduction(x)
    if isinstance(dim, TensorBase):
        return pairwise(x, dim)
    indices = arg(x, dim, True)
    values = indexing.gather(x, dim, indices) if x.ndim else x.clone()
    if not keepdim:
        values, indices = values.squeeze(dim), indices.squeeze(dim)
    return ValuesAndIndices(values, indices)


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
