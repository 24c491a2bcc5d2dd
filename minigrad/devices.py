"""The device: a name for the CPU, for programs that ask for one."""

from __future__ import annotations

from typing import Any

__all__ = ["device"]


class device(str):
    """``mg.device("cpu")``: a string, equal to "cpu", for ``device=`` and ``.to(...)``.

    Raises:
        RuntimeError: any other device is named.
    """

    __slots__ = ()

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> device:
        check_device(type)
        return super().__new__(cls, "cpu")

    @property
    def type(self) -> str:
        """The kind of device, "cpu"."""
        return "cpu"

    @property
    def index(self) -> None:  # type: ignore[override]  # PyTorch's meaning, not that of str
        """None: there is only one."""
        return None

    def __repr__(self) -> str:
        return "device(type='cpu')"


def check_device(device: Any) -> None:
    """Raise for any device but the CPU.

    Raises:
        RuntimeError: there is no such device here.
    """
    if device is not None and str(device).partition(":")[0] != "cpu":
        raise RuntimeError(f"there is no device '{device}': minigrad computes on the CPU; use device=\"cpu\"")


CPU = device()
