"""Answers for programs that ask for, or set up, a backend of PyTorch's: none of them is here.

``mg.backends.mps.is_available()`` is False, and ``mg.backends.cudnn.deterministic = True`` changes nothing:
results here always repeat.
"""

from __future__ import annotations

from typing import Any


class Backend:
    """A backend that is not there; what is set on it has no effect."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def is_available(self) -> bool:
        """Return False."""
        return False

    def __setattr__(self, name: str, value: Any) -> None:  # for type checkers: any name may be set
        self.__dict__[name] = value


cuda = Backend(matmul=Backend())
cudnn = Backend()
mps = Backend()
