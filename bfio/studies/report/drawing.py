"""What drawing a figure returns, and how it becomes SVG and PNG."""

import io
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import matplotlib as mpl
from matplotlib.figure import Figure

from bfio.common.figure_style import STYLE
from bfio.studies.report.text import printable
from bfio.studies.report.traced import DataTable, Phrase

#: Resolution of PNG files [dots per inch].
_DPI = 200
_LOOK = {
    "svg.hashsalt": "bfio",
    "svg.fonttype": "path",
    "axes.unicode_minus": True,
    "font.family": "DejaVu Sans",
    "axes.edgecolor": "0.35",
    "axes.labelcolor": "0.15",
    "xtick.color": "0.25",
    "ytick.color": "0.25",
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "legend.fontsize": 8.5,
    "legend.title_fontsize": 8.5,
}
#: Characters in a line of settings, and its height [inches].
_SETTINGS_WIDTH, _SETTINGS_LINE = 118, 0.11
_IDENTIFIER = re.compile(r'(\bid="|href="#|url\(#)')


@dataclass(frozen=True)
class Drawing:
    """A figure with the data it shows.

    Parameters
    ----------
    figure : Figure, optional
        The figure; None if there is nothing to draw.
    table : DataTable
        The data drawn.
    caption : str
        Axes, units, and what intervals are.
    notes : sequence of Phrase
        Findings and reservations, with traced numbers.
    """

    figure: Figure | None
    table: DataTable
    caption: str
    notes: Sequence[Phrase] = field(default_factory=tuple)


@contextmanager
def look() -> Iterator[None]:
    """Draw and write figures in the project's style, alike on every machine."""
    with mpl.rc_context(STYLE | _LOOK), warnings.catch_warnings():
        # A name in a script that the font lacks is shown as boxes; the data table has it whole.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        # Names too long for their figure: it is drawn all the same.
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        yield


def add_settings(figure: Figure, settings: str) -> None:
    """Write the line of settings below a figure, broken where it would leave it."""
    lines = textwrap.wrap(printable(settings).replace("$", r"\$"), _SETTINGS_WIDTH)
    figure.set_figheight(figure.get_figheight() + _SETTINGS_LINE * len(lines))
    with look():
        figure.supxlabel("\n".join(lines), fontsize=6, color="0.3", x=0.01, ha="left")


def to_svg(figure: Figure) -> str:
    """Return the figure as SVG text; equal figures give equal texts."""
    buffer = io.StringIO()
    with look():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def to_png(figure: Figure) -> bytes:
    """Return the figure as PNG."""
    buffer = io.BytesIO()
    with look():
        figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer.getvalue()


def inline_svg(svg: str, prefix: str) -> str:
    """Return SVG text fit to stand in a page beside others: bare, its identifiers prefixed."""
    start = svg.index("<svg")
    bare = re.sub(r"<metadata>.*?</metadata>", "", svg[start:], flags=re.DOTALL)
    # Comments repeat the texts of the figure; they serve no reader of the page.
    bare = re.sub(r"<!--.*?-->", "", bare, flags=re.DOTALL)
    return _IDENTIFIER.sub(rf"\g<1>{prefix}-", bare)
