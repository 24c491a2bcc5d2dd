"""Derivatives on demand: ``grad``, ``backward``, and a checker that compares rules with finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minigrad.anomaly import detect_anomaly as detect_anomaly
from minigrad.arguments import as_list
from minigrad.function import Function as Function
from minigrad.function import FunctionCtx as FunctionCtx
from minigrad.graph import backward_pass
from minigrad.observers import keep_values as keep_values
from minigrad.tensor import Tensor, accumulate, start_of_backward


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> None:
    """Add to the ``grad`` of every leaf the derivative of the sum of ``tensors``, each weighted by its cotangent.

    Args:
        tensors: what to differentiate.
        grad_tensors: the cotangents, of the tensors' shapes; none is needed for tensors of one element.
        retain_graph: keep the graph for another pass.
        create_graph: make the gradients differentiable themselves.

    Raises:
        RuntimeError: as :meth:`minigrad.Tensor.backward`.
    """
    outputs = as_list(tensors)
    gradients = [None] * len(outputs) if grad_tensors is None else as_list(grad_tensors)
    nodes, cotangents = start_of_backward(outputs, gradients, create_graph)
    for leaf, gradient in backward_pass(
        nodes, cotangents, create_graph=create_graph, retain_graph=bool(retain_graph)
    ).items():
        accumulate(leaf, gradient)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """Return d(outputs)/d(inputs), one tensor for each input, and leave every ``grad`` alone.

    >>> import minigrad as mg
    >>> x = mg.tensor(3.0, requires_grad=True)
    >>> (first,) = mg.autograd.grad(x**3, x, create_graph=True)
    >>> (second,) = mg.autograd.grad(first, x)
    >>> first.item(), second.item()
    (27.0, 18.0)

    Args:
        outputs: what to differentiate; several are summed, each weighted by its cotangent.
        inputs: with respect to what: leaves, or tensors computed on the way.
        grad_outputs: the cotangents, of the outputs' shapes; none is needed for outputs of one element.
        retain_graph: keep the graph for another pass (default: the value of ``create_graph``).
        create_graph: make the result differentiable itself.
        allow_unused: return None for an input that the outputs do not depend on.

    Raises:
        RuntimeError: an input is unused or does not require a gradient, or as :meth:`minigrad.Tensor.backward`.
    """
    wanted = as_list(inputs)
    for tensor in wanted:
        if not tensor.requires_grad:
            raise RuntimeError(
                f"an input of shape {tensor.shape} does not require a gradient: "
                "call x.requires_grad_() before the outputs are computed from it"
            )
    results = as_list(outputs)
    gradients = [None] * len(results) if grad_outputs is None else as_list(grad_outputs)
    nodes, cotangents = start_of_backward(results, gradients, create_graph)
    targets = [tensor._node or tensor for tensor in wanted]
    found = backward_pass(
        nodes,
        cotangents,
        create_graph=create_graph,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        targets=targets,
    )
    answers: list[Tensor | None] = []
    for tensor, target in zip(wanted, targets, strict=True):
        gradient = found.get(target)
        if gradient is None and not allow_unused:
            raise RuntimeError(
                f"the outputs do not depend on an input of shape {tensor.shape}: "
                "pass allow_unused=True to get None for it"
            )
        answers.append(gradient if gradient is None or isinstance(gradient, Tensor) else Tensor(gradient))
    return tuple(answers)


# --- checking a rule ------------------------------------------------------------------------------


class GradcheckError(RuntimeError):
    """A gradient that finite differences contradict."""


def numeric_gradient(
    function: Callable[[], float], array: np.ndarray[Any, Any], step: float | None = None
) -> np.ndarray[Any, Any]:
    """Return the derivative of ``function()`` with respect to each element of ``array``, which it reads.

    The four-point central difference (8 (f(x+h) − f(x−h)) − (f(x+2h) − f(x−2h))) / 12h has an error of order h⁴;
    with h = ε^(1/5) ≈ 7e-4 in float64 (or ``step``), relative to values above 1, its rounding error is about as
    small, near 1e-11.
    """
    result = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        value = array[index]
        h = (step or np.finfo(array.dtype).eps ** 0.2) * max(1.0, math.fabs(value))

        def at(offset: float, index: Any = index, value: Any = value) -> float:
            array[index] = value + offset
            return function()

        result[index] = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
        array[index] = value
    return result


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    *,
    eps: float | None = None,
    rtol: float = 1e-7,
    atol: float = 1e-8,
    seed: int = 0,
    raise_exception: bool = True,
) -> bool:
    """Compare the gradients of ``func`` with finite differences, in float64.

    >>> import minigrad as mg
    >>> x = mg.tensor([0.3, -1.2], dtype=mg.float64, requires_grad=True)
    >>> mg.autograd.gradcheck(lambda x: x.tanh(), x)
    True

    The outputs are weighted by random cotangents of both signs: a check with ones would miss a rule that is not
    linear in its cotangent, or that is wrong by something that sums to zero.

    Args:
        func: takes ``inputs``, returns a tensor or several.
        inputs: float64 tensors; those that require a gradient are checked.
        eps: the step of the differences, relative to values above 1 (default ε^(1/5), about 7e-4).
        rtol, atol: how far gradient and difference may lie apart: atol + rtol · |difference|, where the
            difference of a whole input counts by its largest entry.
        seed: of the random cotangents.
        raise_exception: raise on failure; otherwise return False.

    Raises:
        ValueError: an input that requires a gradient is not float64.
        GradcheckError: they differ, or the shape or dtype is wrong; the sentence has the entry and both values.
    """
    arguments = as_list(inputs)
    checked = [i for i, x in enumerate(arguments) if isinstance(x, Tensor) and x.requires_grad]
    for i in checked:
        if arguments[i].dtype != np.float64:
            raise ValueError(
                f"gradcheck needs float64 inputs, but input {i} is {arguments[i].dtype}: use x.double()"
            )
    rng = np.random.default_rng(seed)
    # Fresh leaves in memory of our own: the differences write into it.
    leaves = [
        Tensor(np.array(x._data), requires_grad=i in checked) if isinstance(x, Tensor) else x
        for i, x in enumerate(arguments)
    ]
    outputs = as_list(func(*leaves))
    cotangents = [_random_cotangent(rng, y) for y in outputs]

    def weighted_output() -> float:
        # Detached leaves: nothing is recorded, and the numbers written into them are seen.
        values = as_list(func(*[x.detach() if isinstance(x, Tensor) else x for x in leaves]))
        return math.fsum(
            float(np.sum(y.detach().numpy() * c.numpy())) for y, c in zip(values, cotangents, strict=True)
        )

    used = [(y, c) for y, c in zip(outputs, cotangents, strict=True) if y.requires_grad]
    try:
        if not used:
            raise GradcheckError("no output depends on an input that requires a gradient")
        gradients = grad(
            [y for y, _ in used], [leaves[i] for i in checked], [c for _, c in used], allow_unused=True
        )
        for i, gradient in zip(checked, gradients, strict=True):
            with np.errstate(all="ignore"):
                expected = numeric_gradient(weighted_output, leaves[i]._data, eps)
            actual = np.zeros_like(expected) if gradient is None else gradient.detach().numpy()
            _check_gradient(i, actual, expected, rtol, atol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _random_cotangent(rng: np.random.Generator, output: Tensor, requires_grad: bool = False) -> Tensor:
    """Return numbers of both signs, between 0.5 and 1.5 in size, of the shape of ``output``."""
    numbers = rng.uniform(0.5, 1.5, output.shape) * rng.choice([-1.0, 1.0], output.shape)
    return Tensor(numbers, requires_grad=requires_grad)


def _check_gradient(
    i: int, actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], rtol: float, atol: float
) -> None:
    """Hold the gradient of input ``i`` to finite differences.

    Raises:
        GradcheckError: they differ, or have another shape or dtype.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise GradcheckError(
            f"the gradient of input {i} has shape {actual.shape} and dtype {actual.dtype}, "
            f"the input {expected.shape} and {expected.dtype}"
        )
    scale = np.max(np.abs(expected), initial=0.0)
    wrong = ~(np.abs(actual - expected) <= atol + rtol * scale)
    if wrong.any():
        where = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise GradcheckError(
            f"the gradient of input {i} is wrong in {np.count_nonzero(wrong)} of {wrong.size} entries: at {where} "
            f"the rule gives {actual[where]:.10g}, finite differences give {expected[where]:.10g}"
            f"{likely_cause(actual, expected)}"
        )


def likely_cause(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> str:
    """Return a guess at what is wrong with a rule, from how its result relates to the right one."""
    if not np.isfinite(actual).all():
        return "; it is not finite: a division by zero, or the logarithm of zero, in the rule?"
    if np.allclose(actual, -expected, rtol=1e-5):
        return "; the sign is wrong"
    if not actual.any():
        return "; it is zero: is the input missing from the rules, or detached on the way?"
    usable = np.abs(expected) > 1e-12
    if usable.any() and np.allclose(actual[~usable], 0, atol=1e-12):
        ratios = actual[usable] / expected[usable]
        if np.allclose(ratios, ratios.flat[0], rtol=1e-5):
            return f"; it is {ratios.flat[0]:.6g} times the right one throughout: a constant factor"
    return ""


def gradgradcheck(func: Callable[..., Any], inputs: Tensor | Sequence[Tensor], **options: Any) -> bool:
    """Compare second derivatives with finite differences: :func:`gradcheck` of the gradient itself.

    Args:
        func: takes ``inputs``, returns a tensor or several.
        inputs: float64 tensors; those that require a gradient are checked.
        options: as of :func:`gradcheck`.

    Raises:
        ValueError, GradcheckError: as :func:`gradcheck`.
    """
    arguments = as_list(inputs)
    checked = [i for i, x in enumerate(arguments) if isinstance(x, Tensor) and x.requires_grad]
    outputs = as_list(func(*arguments))
    rng = np.random.default_rng(options.get("seed", 0) + 1)
    # The cotangents are inputs of the gradient too, and its derivative with respect to them is checked as well.
    cotangents = [_random_cotangent(rng, y, requires_grad=True) for y in outputs if y.requires_grad]

    def gradient(*everything: Any) -> Any:
        xs = list(everything[: len(arguments)])
        for i in checked:
            # Also where gradcheck evaluates on constants, this gradient is to be computed.
            xs[i] = xs[i] if xs[i].requires_grad else xs[i].detach().requires_grad_()
        ys = [y for y in as_list(func(*xs)) if y.requires_grad]
        found = grad(
            ys, [xs[i] for i in checked], everything[len(arguments) :], create_graph=True, allow_unused=True
        )
        return [g for g in found if g is not None]

    return gradcheck(gradient, [*arguments, *cotangents], **options)
