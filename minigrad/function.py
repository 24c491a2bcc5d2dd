"""Operations of one's own, PyTorch's way: a class with a forward and a backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad.arguments import as_list
from minigrad.grad_mode import _recording, enable_grad, no_grad
from minigrad.graph import Array, Node, Parent
from minigrad.observers import observers, tell
from minigrad.plan import Plan
from minigrad.tensor import Tensor


class FunctionCtx:
    """What :meth:`Function.forward` leaves for :meth:`Function.backward`; takes any attributes besides.

    Attributes:
        needs_input_grad: for each argument of ``forward``, whether its gradient is asked for.
    """

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.to_save: tuple[Tensor | None, ...] = ()
        self.non_differentiable: tuple[Tensor, ...] = ()
        self._saved: list[tuple[Any, int | None, int]] = []  # (tensor or array, which output, version)
        self._node: Node | None = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (inputs, outputs, or others) for ``ctx.saved_tensors``, guarded against later writes."""
        self.to_save = tensors

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Say that these outputs carry no gradient."""
        self.non_differentiable = outputs

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors (or None) that ``save_for_backward`` was given; for use in backward.

        Raises:
            RuntimeError: one was written in place since.
        """
        node = self._node
        found: list[Tensor | None] = []
        for tensor, output, version in self._saved:
            if tensor is not None and tensor._version[0] != version:
                raise RuntimeError(
                    f"a tensor of shape {tensor.shape} that {node.op.name if node else 'a Function'} saved was "
                    f"modified in place since (version {tensor._version[0]}, saved at version {version}): "
                    "save x.clone(), or write into a copy"
                )
            if output is not None and node is not None:
                tensor = Tensor(tensor._data, place(node, output), True, tensor._version)
            found.append(tensor)
        return tuple(found)

    def _keep(self, outputs: Sequence[Tensor]) -> None:
        """Hold what is to be saved; of outputs only the memory, since an output already points here."""
        for tensor in self.to_save:
            at = next((k for k, output in enumerate(outputs) if output is tensor), None)
            if tensor is not None and at is not None:
                self._saved.append((tensor.detach(), at, tensor._version[0]))
            else:
                self._saved.append((tensor, None, tensor._version[0] if tensor is not None else 0))
        self.to_save = ()


def place(node: Node, output: int) -> Node:
    """Return the node that stands for one output of ``node``."""
    return node.pick(output) if isinstance(node.shape, list) else node


class Function:
    """An operation with a derivative of your own.

    >>> import minigrad as mg
    >>> class Cube(mg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return g * 3 * x**2
    >>> x = mg.tensor([1.0, 2.0], requires_grad=True)
    >>> Cube.apply(x).sum().backward()
    >>> x.grad
    tensor([ 3., 12.])

    ``backward`` receives one gradient for each output and returns one for each argument of ``forward`` (None for
    those that need none).  Written with operations of this package, it can itself be differentiated.  As in
    PyTorch, ``forward`` may also leave out ``ctx`` and a ``setup_context(ctx, inputs, output)`` do the saving.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the output, from Tensors and anything else; not recorded.

        Raises:
            NotImplementedError: the class doesn't define it.
        """
        raise NotImplementedError("a Function must define forward(ctx, ...)")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what backward needs, where ``forward`` takes no ``ctx``.

        Raises:
            NotImplementedError: the class doesn't define it; then it isn't called either.
        """
        raise NotImplementedError

    @staticmethod
    def backward(*args: Any, **kwargs: Any) -> Any:
        """Return the gradient of each argument of ``forward``, from ``ctx`` and the gradient of each output.

        Raises:
            NotImplementedError: the class doesn't define it.
        """
        raise NotImplementedError("a Function must define backward(ctx, ...)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call ``forward`` and record it.

        Raises:
            TypeError: ``forward`` returns something that is no Tensor.
        """
        needs = tuple(isinstance(x, Tensor) and x.requires_grad for x in args)
        ctx = FunctionCtx(needs)
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                results = cls.forward(*args)
                cls.setup_context(ctx, args, results)
            else:
                results = cls.forward(ctx, *args)
        several = isinstance(results, tuple | list)
        outputs = as_list(results)
        for output in outputs:
            if not isinstance(output, Tensor):
                raise TypeError(f"{cls.__name__}.forward must return Tensors, not {type(output).__name__}")
        if any(needs) and _recording.get():
            outputs = cls._record(ctx, args, outputs, several)
        return tuple(outputs) if several else outputs[0]

    @classmethod
    def _record(
        cls, ctx: FunctionCtx, args: Sequence[Any], outputs: Sequence[Tensor], several: bool
    ) -> list[Tensor]:
        """Return the outputs as tensors that point to a new node of the graph."""
        operation = FunctionOperation(cls, several)
        wanted = tuple(i for i, needed in enumerate(ctx.needs_input_grad) if needed)
        # The context holds what backward needs, and its versions: the plan saves nothing and has no rules.
        plan = Plan(operation, wanted, values=(), names=(), rules=(), record=Node, pull=tuple, modified=bool)  # type: ignore[arg-type]
        parents = [args[i]._node or args[i] for i in wanted]
        shapes, dtypes = [y.shape for y in outputs], [y.dtype for y in outputs]
        node = Node(plan, parents, [ctx], (), shapes if several else shapes[0], dtypes if several else dtypes[0])
        if (watching := observers.get()) is not None:
            arrays = [x._data if isinstance(x, Tensor) else x for x in args]
            tell(watching, node, operation, arrays, [y._data for y in outputs])
        ctx._keep(outputs)
        recorded = []
        for k, output in enumerate(outputs):
            # Always a tensor of its own: forward may have returned one of its inputs.
            version = output._version if any(output is x for x in args) else None
            if output.dtype.kind != "f" or any(output is x for x in ctx.non_differentiable):
                recorded.append(Tensor(output._data, version=version))
            else:
                recorded.append(Tensor(output._data, place(node, k), True, version))
        ctx.non_differentiable = ()
        return recorded


class FunctionOperation:
    """What the graph's walk calls for a node that a Function made."""

    def __init__(self, function: type[Function], several: bool) -> None:
        self.function = function
        self.name = function.__name__
        self.several = several

    def pullback(self, node: Node, g: Array, useful: set[Parent] | None) -> Sequence[Any]:
        """Call ``backward`` on arrays wrapped as Tensors, unrecorded."""
        with no_grad():
            results = self.call(node, g)
        return [None if result is None else result._data for result in results]

    def pullback_as_tensors(self, node: Node, g: Array, useful: set[Parent] | None) -> Sequence[Any]:
        """Call ``backward`` on Tensors and record what it does."""
        with enable_grad():
            return self.call(node, g)

    def call(self, node: Node, g: Array) -> list[Any]:
        """Call ``backward`` and check what it returns.

        Raises:
            RuntimeError: it returns another number of gradients than forward has arguments, or a wrong shape.
        """
        assert node.saved is not None
        ctx = node.saved[0]
        given = [x if isinstance(x, Tensor) else Tensor(np.asarray(x)) for x in (g if self.several else [g])]
        ctx._node = node  # for the duration of the call only: the node already holds the context
        try:
            returned = self.function.backward(ctx, *given)
        finally:
            ctx._node = None
        gradients = as_list(returned)
        n = len(ctx.needs_input_grad)
        while len(gradients) > n and gradients[-1] is None:
            gradients.pop()
        if len(gradients) != n:
            raise RuntimeError(
                f"{self.name}.backward returned {len(gradients)} gradients, but forward has {n} arguments: "
                "return one for each, None for those that need none"
            )
        results = []
        for parent, i in zip(node.parents, node.plan.arguments, strict=True):
            gradient = gradients[i]
            if gradient is not None and gradient.shape != parent.shape:
                try:
                    fits = np.broadcast_shapes(gradient.shape, parent.shape) == gradient.shape
                except ValueError:
                    fits = False
                if not fits:
                    raise RuntimeError(
                        f"{self.name}.backward returned a gradient of shape {gradient.shape} for argument {i} "
                        f"of shape {parent.shape}"
                    )
            results.append(gradient)
        return results
