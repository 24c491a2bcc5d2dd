"""Ctrl-C, made polite."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any


class StopSignals:
    """Inside the block, the first Ctrl-C only asks to stop, by ``requested``; the second stops.

    A signal that was ignored before, as of a command in the background, is ignored still.

    Args:
        note: is written to stderr at the first.
        names: the signals that are taken so: Ctrl-C's, and by default the system's request to end, too.
    """

    def __init__(self, note: str = "", names: Sequence[str] = ("SIGINT", "SIGTERM", "SIGBREAK")) -> None:
        self.requested = False
        self.note = note.encode("ascii")
        self.names = names
        self.before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            for name in self.names:
                number = getattr(signal, name, None)  # SIGBREAK is there on Windows only
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self.before[number] = signal.signal(number, self.receive)
        return self

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Take note of a signal; of a second one, stop at once.

        Raises:
            KeyboardInterrupt: it is the second.
        """
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        with suppress(OSError):  # print() may not be interrupted by itself
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, self.note)

    def __exit__(self, *exception: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
