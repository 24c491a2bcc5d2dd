"""What :func:`minigrad.draw` returns."""

from __future__ import annotations

from pathlib import Path

from minigrad.draw.picture import Picture
from minigrad.draw.svg import as_svg
from minigrad.draw.text import as_text


class Drawing:
    """A picture of a graph: ``print`` it, show it in a notebook, or :meth:`save` it as SVG."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture

    def __str__(self) -> str:
        return as_text(self.picture)

    __repr__ = __str__

    @property
    def svg(self) -> str:
        """The picture as SVG."""
        return as_svg(self.picture)

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.svg}</div>'

    def save(self, path: str | Path) -> None:
        """Write the picture to an SVG file.

        Raises:
            OSError: it can't be written.
        """
        Path(path).write_text(self.svg, encoding="utf-8")
