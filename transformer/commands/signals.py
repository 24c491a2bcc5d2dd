"""Ctrl-C, made polite."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any


class StopSignals:
    """Inside the block, the first Ctrl-C (or request of the system to end) only asks to stop; the second stops.

    A signal that was ignored before, as of a command in the background, is ignored still.
    """

    def __init__(self) -> None:
        self.requested = False
        self.before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            for name in ("SIGINT", "SIGTERM", "SIGBREAK"):  # the last on Windows only
                number = getattr(signal, name, None)
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
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, NOTE)

    def __exit__(self, *exception: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


NOTE = b"\nfinishing this step, then saving; once more stops at once\n"
