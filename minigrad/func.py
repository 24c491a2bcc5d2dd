"""Derivatives as functions of functions: ``mg.func.grad(f)`` is f′, and may be differentiated again.

Each of them does the same: the inputs enter the graph at places of their own (:func:`enter`), the function is
called, its gradients are pulled back to those places (:func:`pullback`), and the results leave the graph
(:func:`leave`).  So nested uses cannot mistake one another's variables: a derivative is always taken with
respect to its own places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minigrad import autograd
from minigrad.arguments import as_list
from minigrad.grad_mode import enable_grad
from minigrad.graph import Node, below
from minigrad.rules.elementwise import identity
from minigrad.rules.shape import stack
from minigrad.tensor import Tensor

__all__ = ["grad", "grad_and_value", "hessian", "hvp", "jacrev", "jvp", "vjp"]


def enter(x: Any, name: str) -> Tensor:
    """Return ``x`` at a place of its own in the graph, so that a derivative with respect to it can be asked for.

    Raises:
        TypeError: ``x`` is no floating tensor.
    """
    if not isinstance(x, Tensor) or x.dtype.kind != "f":
        what = f"a tensor of {x.dtype}" if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"func.{name}() differentiates with respect to floating tensors, not {what}")
    return identity(x) if x.requires_grad else x.detach().requires_grad_()


def leave(result: Any, entered: Sequence[Tensor]) -> Any:
    """Return a derivative without its graph, unless it depends on something else that requires a gradient."""
    if not isinstance(result, Tensor) or not result.requires_grad:
        return result
    own = {id(x) for x in entered if x.is_leaf}
    for place in below(result._node or result):
        if not isinstance(place, Node) and id(place) not in own:
            return result
    return result.detach()


def enter_some(args: Sequence[Any], wanted: Sequence[int], name: str) -> tuple[list[Any], list[Tensor]]:
    """Return the arguments, with those at the positions ``wanted`` entered; and those alone."""
    arguments = list(args)
    for i in wanted:
        arguments[i] = enter(args[i], name)
    return arguments, [arguments[i] for i in wanted]


def pullback(outputs: Sequence[Tensor], entered: Sequence[Tensor], cotangents: Sequence[Any]) -> list[Tensor]:
    """Return the differentiable gradients of ``outputs`` with respect to what was entered, zeros where unused."""
    used = [(y, c) for y, c in zip(outputs, cotangents, strict=True) if y.requires_grad]
    found: Sequence[Any] = [None] * len(entered)
    if used:
        found = autograd.grad(
            [y for y, _ in used], list(entered), [c for _, c in used], create_graph=True, allow_unused=True
        )
    return [g if g is not None else Tensor(np.zeros_like(x._data)) for g, x in zip(found, entered, strict=True)]


def grad_and_value(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """Return a function that gives the gradient of a scalar ``func``, and its value.

    Args:
        func: takes tensors, returns a tensor of one element (with ``has_aux``: that, and anything else).
        argnums: the position of the argument to differentiate with respect to, or several.
        has_aux: the value is then the pair (value, anything else).

    Raises:
        TypeError: when it is called, an argument to differentiate with respect to is no floating tensor.
        RuntimeError: when it is called, the function's value has more than one element.
    """
    wanted = as_list(argnums)

    def gradient_and_value(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        with enable_grad():
            arguments, entered = enter_some(args, wanted, "grad")
            value = func(*arguments, **kwargs)
            value, aux = value if has_aux else (value, None)
            if not isinstance(value, Tensor) or value.numel() != 1:
                shape = value.shape if isinstance(value, Tensor) else type(value).__name__
                raise RuntimeError(
                    f"func.grad() needs a function whose value has one element, not {shape}: "
                    "reduce it, as by .sum(), or use func.jacrev()"
                )
            gradients = tuple(leave(g, entered) for g in pullback([value], entered, [None]))
        value = leave(value, entered)
        return gradients[0] if isinstance(argnums, int) else gradients, (value, aux) if has_aux else value

    return gradient_and_value


def grad(func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return the function that gives the gradient of a scalar ``func``.

    >>> import minigrad as mg
    >>> cube = lambda x: x**3
    >>> mg.func.grad(cube)(mg.tensor(2.0)), mg.func.grad(mg.func.grad(cube))(mg.tensor(2.0))
    (tensor(12.), tensor(12.))

    As :func:`grad_and_value`, whose arguments it has, without the value (with ``has_aux``: the gradient and
    anything else).

    Raises:
        TypeError: when it is called, an argument to differentiate with respect to is no floating tensor.
        RuntimeError: when it is called, the function's value has more than one element.
    """
    both = grad_and_value(func, argnums, has_aux)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        result, value = both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return gradient


def vjp(func: Callable[..., Any], *primals: Tensor) -> tuple[Any, Callable[..., tuple[Tensor, ...]]]:
    """Return ``func(*primals)`` and the map from a cotangent v to vᵀ · J, one result for each primal.

    >>> import minigrad as mg
    >>> y, pull = mg.func.vjp(lambda x: x**2, mg.tensor([1.0, 3.0]))
    >>> pull(mg.tensor([1.0, 10.0]))
    (tensor([ 2., 60.]),)

    Raises:
        TypeError: a primal is no floating tensor.
    """
    with enable_grad():
        entered = [enter(x, "vjp") for x in primals]
        outputs = func(*entered)
    several, ys = isinstance(outputs, tuple | list), as_list(outputs)

    def pull(*cotangents: Any) -> tuple[Tensor, ...]:
        given = list(cotangents[0]) if several and len(cotangents) == 1 else list(cotangents)
        with enable_grad():
            return tuple(leave(g, entered) for g in pullback(ys, entered, given))

    values = [leave(y, entered) for y in ys]
    return tuple(values) if several else values[0], pull


def check_tangents(primals: Sequence[Tensor], tangents: Sequence[Tensor]) -> None:
    """Raise unless there is one tangent for each primal.

    Raises:
        RuntimeError: there are more or fewer.
    """
    if len(primals) != len(tangents):
        raise RuntimeError(f"{len(tangents)} tangents were given for {len(primals)} primals: give one for each")


def jvp(func: Callable[..., Any], primals: Sequence[Tensor], tangents: Sequence[Tensor]) -> tuple[Any, Any]:
    """Return ``func(*primals)`` and J · tangents: how the outputs move when the primals move that way.

    >>> import minigrad as mg
    >>> mg.func.jvp(lambda x: x**2, (mg.tensor([1.0, 3.0]),), (mg.tensor([1.0, 0.5]),))
    (tensor([1., 9.]), tensor([2., 3.]))

    Reverse mode twice: vᵀ J is linear in v, and its derivative with respect to v, weighted by the tangents, is
    J · tangents (Townsend 2017, "A new trick for calculating Jacobian vector products").

    Args:
        func: takes tensors, returns a tensor or several.
        primals: the tensors to call it with.
        tangents: for each the direction in which it moves, of its shape.

    Returns:
        The value and its change: tensors, or tuples of them if the function returns several.

    Raises:
        TypeError: a primal is no floating tensor.
        RuntimeError: there are not as many tangents as primals, or one has another shape than its primal.
    """
    check_tangents(primals, tangents)
    for x, t in zip(primals, tangents, strict=True):
        if x.shape != t.shape:
            raise RuntimeError(f"a tangent of shape {t.shape} doesn't fit a primal of shape {x.shape}")
    with enable_grad():
        entered = [enter(x, "jvp") for x in primals]
        outputs = func(*entered)
        several, ys = isinstance(outputs, tuple | list), as_list(outputs)
        # Any cotangents do: only the derivative with respect to them is used.
        cotangents = [Tensor(np.ones_like(y._data), requires_grad=True) for y in ys]
        gradients = pullback(ys, entered, cotangents)
        moved = pullback(gradients, cotangents, list(tangents))
    own = [*entered, *cotangents]
    values, pushed = [leave(y, own) for y in ys], [leave(t, own) for t in moved]
    return (tuple(values), tuple(pushed)) if several else (values[0], pushed[0])


def jacrev(func: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """Return the function that gives the Jacobian: of shape (output's shape) + (argument's shape).

    >>> import minigrad as mg
    >>> mg.func.jacrev(lambda x: x * x[0])(mg.tensor([2.0, 3.0]))
    tensor([[4., 0.],
            [3., 2.]])

    One backward pass for each element of the output.  Several ``argnums`` give a tuple.

    Raises:
        TypeError: when it is called, an argument to differentiate with respect to is no floating tensor.
    """
    wanted = as_list(argnums)

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            arguments, entered = enter_some(args, wanted, "jacrev")
            output = func(*arguments, **kwargs)
            rows = []
            for k in range(output.numel()):
                basis = np.zeros(output.shape, output.dtype)
                basis.flat[k] = 1
                rows.append(pullback([output], entered, [Tensor(basis)]))
            result = []
            for j, x in enumerate(entered):
                shape = (*output.shape, *x.shape)
                parts = [row[j] for row in rows]
                whole = stack(parts).reshape(shape) if parts else Tensor(np.zeros(shape, x.dtype))
                result.append(leave(whole, entered))
        return result[0] if isinstance(argnums, int) else tuple(result)

    return jacobian


def hessian(func: Callable[..., Any], argnums: int = 0) -> Callable[..., Tensor]:
    """Return the function that gives the second derivatives of a scalar ``func``: (shape) + (shape).

    >>> import minigrad as mg
    >>> mg.func.hessian(lambda x: (x[0] ** 2) * x[1])(mg.tensor([1.0, 3.0]))
    tensor([[6., 2.],
            [2., 0.]])

    Args:
        func: takes tensors, returns a tensor of one element.
        argnums: the position of the argument to differentiate with respect to.

    Raises:
        TypeError: when it is called, that argument is no floating tensor.
        RuntimeError: when it is called, the function's value has more than one element.
    """
    return jacrev(grad(func, argnums), argnums)


def hvp(
    func: Callable[..., Any], primals: Sequence[Tensor] | Tensor, tangents: Sequence[Tensor] | Tensor
) -> tuple[Any, Any]:
    """Return the value of a scalar ``func`` and its Hessian times a vector, without the Hessian itself.

    >>> import minigrad as mg
    >>> mg.func.hvp(lambda x: (x**3).sum(), mg.tensor([1.0, 2.0]), mg.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))

    The gradient is taken, its inner product with the vector, and the gradient of that: (gᵀ v)′ = H v.

    Args:
        func: takes tensors, returns a tensor of one element.
        primals: the tensor or tensors to call it with.
        tangents: v, of the same number and shapes.

    Returns:
        The value and H v: a tensor if ``primals`` is one, else a tuple.

    Raises:
        TypeError: a primal is no floating tensor.
        RuntimeError: the function's value has more than one element, or the tangents don't fit the primals.
    """
    xs, vs = as_list(primals), as_list(tangents)
    check_tangents(xs, vs)
    with enable_grad():
        entered = [enter(x, "hvp") for x in xs]
        value = func(*entered)
        if value.numel() != 1:
            raise RuntimeError(
                f"func.hvp() needs a function whose value has one element, not {value.shape}: "
                "reduce it, as by .sum()"
            )
        products = pullback(pullback([value], entered, [None]), entered, vs)
    value, products = leave(value, entered), [leave(p, entered) for p in products]
    return value, products[0] if isinstance(primals, Tensor) else tuple(products)
