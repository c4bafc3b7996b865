"""Common style of figures, and figures that notebooks show."""

import io
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from formulations.errors import InputError

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


def save(figure: Figure, path: Path) -> Path:
    """Write a figure in the format of the path's suffix, and return the path."""
    try:
        figure.savefig(path, dpi=_DPI)
    except OSError as error:
        raise InputError(
            str(path),
            f"cannot be written ({error.strerror})",
            "choose another output=FOLDER",
        ) from None
    return path
