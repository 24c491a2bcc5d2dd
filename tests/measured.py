"""What a block of a test takes."""

import tracemalloc
from types import TracebackType


class PeakMemory:
    """A block, at the end of which ``peak`` is the most bytes that were allocated at once inside it."""

    peak: int

    def __enter__(self) -> "PeakMemory":
        tracemalloc.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
