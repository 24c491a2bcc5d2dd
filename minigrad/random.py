"""Random numbers from a generator whose state can be seeded, saved and restored."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from minigrad import dtypes
from minigrad.arguments import as_array, extent
from minigrad.creation import wrap
from minigrad.devices import check_device
from minigrad.tensor import Tensor

__all__ = [
    "Generator",
    "bernoulli",
    "fork_rng",
    "get_rng_state",
    "manual_seed",
    "multinomial",
    "normal",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "set_rng_state",
    "use_generator",
]


class Generator:
    """A source of random numbers, for ``generator=`` arguments; the functions here use a global one without it.

    >>> from minigrad import Generator, rand
    >>> g = Generator().manual_seed(0)
    >>> state = g.get_state()
    >>> first = rand(3, generator=g)
    >>> g.set_state(state)
    >>> bool((rand(3, generator=g) == first).all())
    True
    """

    def __init__(self, device: Any = "cpu") -> None:
        check_device(device)

    @functools.cached_property
    def numpy(self) -> np.random.Generator:
        """The NumPy generator, made when the first number is drawn: importing numpy.random takes a while."""
        return np.random.Generator(np.random.PCG64())

    def manual_seed(self, seed: int) -> Generator:
        """Start anew from ``seed`` (any int; negative ones are taken modulo 2⁶⁴) and return the generator."""
        self.numpy = np.random.Generator(np.random.PCG64(int(seed) % 2**64))
        return self

    def get_state(self) -> Tensor:
        """Return the state, a uint8 vector, for :meth:`set_state`."""
        text = json.dumps(self.numpy.bit_generator.state, sort_keys=True)
        return Tensor(np.frombuffer(text.encode("utf-8"), dtype=np.uint8).copy())

    def set_state(self, state: Tensor) -> None:
        """Go on from ``state``.

        Raises:
            ValueError: ``state`` is not what :meth:`get_state` returned.
        """
        try:
            self.numpy.bit_generator.state = json.loads(state.numpy().tobytes().decode("utf-8"))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError("this is no state of a random generator: pass what get_state() returned") from error


default_generator = Generator()
_own_generator: ContextVar[Generator | None] = ContextVar("minigrad_generator", default=None)


def current_generator() -> Generator:
    """Return the generator that functions without ``generator=`` draw from: the global one, or a fork's."""
    return _own_generator.get() or default_generator


@contextmanager
def fork_rng(seed: int | None = None) -> Iterator[Generator]:
    """Draw from a generator of one's own inside the block, and leave the global one as it was.

    It starts from ``seed``, or from the state of the current one.  The fork belongs to this thread (or
    asynchronous task) alone, so that threads which run side by side each repeat to the bit.

    >>> import minigrad as mg
    >>> with fork_rng(7):
    ...     a = mg.rand(3)
    >>> with fork_rng(7):
    ...     b = mg.rand(3)
    >>> mg.equal(a, b)
    True
    """
    fork = Generator()
    if seed is None:
        fork.set_state(current_generator().get_state())
    else:
        fork.manual_seed(seed)
    with use_generator(fork):
        yield fork


@contextmanager
def use_generator(generator: Generator) -> Iterator[Generator]:
    """Draw from this generator inside the block, instead of the global one; for this thread (or task) alone.

    >>> import minigrad as mg
    >>> generator = mg.Generator().manual_seed(7)
    >>> with use_generator(generator):
    ...     a = mg.rand(3)
    >>> mg.equal(a, mg.rand(3, generator=mg.Generator().manual_seed(7)))
    True
    """
    token = _own_generator.set(generator)
    try:
        yield generator
    finally:
        _own_generator.reset(token)


def manual_seed(seed: int) -> Generator:
    """Seed the global generator, and return it: the same program then draws the same numbers.

    Inside :func:`fork_rng` or :func:`use_generator` it is theirs that is seeded.
    """
    return current_generator().manual_seed(seed)


def get_rng_state() -> Tensor:
    """Return the state of the global generator (or of the one in use in its place), a uint8 vector."""
    return current_generator().get_state()


def set_rng_state(state: Tensor) -> None:
    """Have the global generator (or the one in use in its place) go on from ``state``.

    Raises:
        ValueError: ``state`` is not what :func:`get_rng_state` returned.
    """
    current_generator().set_state(state)


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return uniform numbers in [0, 1).

    Args:
        size: the shape: ``rand(2, 3)`` or ``rand((2, 3))``.
        generator: where they come from (default: the global generator).
        dtype: a floating one (default: the default dtype).
        device: "cpu" or None.
        requires_grad: of the tensor.

    Raises:
        RuntimeError: the dtype is not floating, a size is negative, or another device than "cpu" is named.
    """
    source = (generator or current_generator()).numpy
    return _draw(source.random, size, dtype, device, requires_grad)


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return numbers of the normal distribution of mean 0 and variance 1; else as :func:`rand`."""
    source = (generator or current_generator()).numpy
    return _draw(source.standard_normal, size, dtype, device, requires_grad)


def _draw(draw: Callable[..., Any], size: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """Return floating numbers from a method of one of NumPy's generators."""
    chosen = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if chosen.kind != "f":
        raise RuntimeError(f"random numbers need a floating dtype, not {chosen}")
    known = chosen if chosen.itemsize >= 4 else dtypes.float32  # NumPy draws float32 and float64 only
    return wrap(np.asarray(draw(extent(size), dtype=known), chosen), device, requires_grad)


def rand_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Return uniform numbers in [0, 1) of the shape and dtype of ``input``."""
    return rand(input.shape, dtype=dtype or input.dtype, requires_grad=requires_grad)


def randn_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Return numbers of the normal distribution (mean 0, variance 1), of the shape and dtype of ``input``."""
    return randn(input.shape, dtype=dtype or input.dtype, requires_grad=requires_grad)


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
) -> Tensor:
    """Return numbers of the normal distribution of that mean and standard deviation.

    Args:
        mean, std: two numbers; or tensors, which broadcast: each element is then drawn with its own.
        size: the shape (default: that of ``mean`` and ``std``).
        generator: where the numbers come from (default: the global generator).
        dtype: of the numbers drawn, a floating one (default: the default dtype); the result is promoted with
            ``mean`` and ``std``.

    Raises:
        RuntimeError: a standard deviation is negative, or the dtype is not floating.
        ValueError: the shapes of ``mean`` and ``std`` don't broadcast.
    """
    if np.any(np.asarray(as_array(std)) < 0):
        raise RuntimeError(f"normal() needs standard deviations of at least 0, not {std}")
    if size is None:
        size = np.broadcast_shapes(np.shape(mean), np.shape(std))
    drawn = randn(size, generator=generator, dtype=dtype)
    return drawn.mul(std).add(mean)


def randint(
    low: int,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return int64 numbers from ``low`` (0 if left out) up to but not including ``high``: ``randint(10, (2, 3))``.

    Args:
        low: the least number.
        high: one more than the greatest.
        size: the shape.
        generator: where they come from (default: the global generator).
        dtype: another one than int64.
        device: "cpu" or None.

    Raises:
        ValueError: the range is empty.
        RuntimeError: a size is negative, or another device is named.
    """
    if size is None:
        low, high, size = 0, low, high
    if not low < high:
        raise ValueError(f"randint() needs low < high, not {low} and {high}")
    source = (generator or current_generator()).numpy
    drawn = source.integers(low, high, extent((size,)))
    return wrap(np.asarray(drawn, dtypes.as_dtype(dtype or dtypes.int64)), device, False)


def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the integers below ``n``, int64, in random order: all orders are equally likely.

    Args:
        n: how many.
        generator: where the order comes from (default: the global generator).
        dtype: another one than int64.
        device: "cpu" or None.

    Raises:
        RuntimeError: n is negative, or another device is named.
    """
    if n < 0:
        raise RuntimeError(f"randperm() needs a number of at least 0, not {n}")
    source = (generator or current_generator()).numpy
    return wrap(np.asarray(source.permutation(n), dtypes.as_dtype(dtype or dtypes.int64)), device, False)


def bernoulli(input: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Return 1 with the probability that ``input`` has there, else 0: in its shape and dtype.

    Args:
        input: the probabilities.
        generator: where the random numbers come from (default: the global generator).

    Raises:
        RuntimeError: a probability is outside [0, 1].
    """
    wrong = input._data[~((input._data >= 0) & (input._data <= 1))]  # also NaN
    if wrong.size:
        raise RuntimeError(f"bernoulli() needs probabilities between 0 and 1, not {wrong[0]}")
    drawn = rand(input.shape, generator=generator, dtype=dtypes.float64)
    return (drawn < input.detach()).to(input.dtype)


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Draw indices with probabilities proportional to each row of ``input``: (V,) or (n, V) → (…, num_samples).

    Without ``replacement`` an index is drawn once only: the Gumbel trick takes the largest ln p − ln(−ln u),
    which orders indices as repeated drawing would.  Samples are int64 and carry no gradient.

    Args:
        input: the probabilities, of which each row need not sum to 1.
        num_samples: how many indices for each row.
        replacement: whether an index may be drawn again.
        generator: where the random numbers come from (default: the global generator).

    Raises:
        RuntimeError: a probability is negative or not finite, a row sums to 0, or too few are above 0.
    """
    weights = np.asarray(input._data, np.float64)
    if weights.ndim not in (1, 2) or num_samples < 1:
        raise RuntimeError(
            f"multinomial() needs (V,) or (n, V) and num_samples > 0, not {input.shape} and {num_samples}"
        )
    cumulative = np.add.accumulate(weights, axis=-1)
    total = cumulative[..., -1:]  # (…, 1)   NaN if a weight is
    if weights.size and not weights.min() >= 0:
        raise RuntimeError(f"multinomial() needs finite probabilities of at least 0, not {weights.min()}")
    sums = total.ravel().tolist() if weights.shape[-1] else [0.0]
    if wrong := [row for row in sums if not 0 < row < math.inf]:
        raise RuntimeError(f"multinomial() needs finite probabilities, not all 0 in a row: one sums to {wrong[0]}")
    source = (generator or current_generator()).numpy
    if replacement or num_samples == 1:
        # Invert the distribution function: the first index at which it exceeds a uniform number.
        drawn = source.random((*weights.shape[:-1], num_samples)) * total
        chosen = np.add.reduce(cumulative[..., None, :] <= drawn[..., None], axis=-1, dtype=np.int64)
        return Tensor(chosen)
    if num_samples > (weights > 0).sum(-1).min():
        raise RuntimeError(
            f"multinomial() can't draw {num_samples} different indices: fewer have p > 0; pass replacement=True"
        )
    with np.errstate(divide="ignore"):
        keys = np.log(weights) - np.log(-np.log(source.random(weights.shape)))
    return Tensor(np.argsort(-keys, axis=-1, kind="stable")[..., :num_samples].astype(np.int64))
