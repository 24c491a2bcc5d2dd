"""A fixed name for every tensor worth looking at, and a way to keep them while the model runs."""

from __future__ import annotations

from minigrad import Tensor


class Capture:
    """Keeps tensors under their full names.

    ``capture(q=q)`` inside ``blocks.0.attention`` stores ``tensors["blocks.0.attention.q"]``.
    """

    on = True

    def __init__(self, tensors: dict[str, Tensor], prefix: str = "") -> None:
        self.tensors = tensors
        self.prefix = prefix

    def within(self, name: str) -> Capture:
        """Return a capture whose names all start with ``name.``."""
        return Capture(self.tensors, f"{self.prefix}{name}.")

    def __call__(self, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            self.tensors[self.prefix + name] = tensor


class _NoCapture(Capture):
    """Keeps nothing: what a model runs with unless it is asked to be watched."""

    on = False

    def within(self, name: str) -> Capture:
        return self

    def __call__(self, **tensors: Tensor) -> None:
        pass


NOTHING = _NoCapture({})
