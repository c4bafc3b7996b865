"""Common style of figures, and figures that notebooks show."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bfio.common.files import atomic_file

#: Matplotlib settings for all figures of commands and benchmarks.
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 9,
    "axes.titlesize": 10,
    "legend.frameon": False,
}
#: Dots per inch of figures written or shown.
_DPI = 150


class ShownFigure(Figure):
    """A figure that notebooks show as an image, even without a pyplot backend."""

    def _repr_png_(self) -> bytes:
        written = io.BytesIO()
        self.savefig(written, format="png", dpi=_DPI)
        return written.getvalue()


@contextmanager
def styled(
    width: float, height: float, *grid: int, **panels: Any
) -> Iterator[tuple[ShownFigure, Any]]:
    """Yield an empty figure of a size [inches] with its `subplots`, in the common style."""
    with mpl.rc_context(STYLE):
        figure = ShownFigure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(*grid, **panels)


def label_pair(figure: Figure, pair: Any, xlabel: str, *labels: tuple[str, str]) -> None:
    """Label two panels: a common x axis, a title and a unit each, and one legend below both."""
    for axes, (title, ylabel) in zip(pair, labels, strict=True):
        axes.set(title=title, ylabel=ylabel, ylim=(0, None))
    pair[1].set_xlabel(xlabel)
    # Below both panels, so that it covers no line.
    lines = pair[1].get_lines()
    figure.legend(handles=lines, loc="outside lower center", ncols=min(4, len(lines)))


def save(figure: Figure, path: Path) -> Path:
    """Write a figure atomically in the format of the path's suffix, and return the path."""
    with atomic_file(path, overwrite=True) as (stream, _):
        # In memory first, because Matplotlib's PDF writer fails in its own way on a full disk.
        drawn = io.BytesIO()
        figure.savefig(drawn, dpi=_DPI, format=path.suffix[1:])
        stream.write(drawn.getvalue())
    return path
