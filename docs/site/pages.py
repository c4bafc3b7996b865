"""Build the page tree of the site from the tables of ``docs/index.md``."""

import re
from pathlib import Path, PurePosixPath
from typing import Any

from sphinx.application import Sphinx

_INDEX = "docs/index"
#: Pages with a folder of others behind them, which lie there as these patterns say.
_FOLDERS = {"benchmarks/README": "studies/*/README", "proofs_checks/README": "proofs/*"}
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| \[[^\]]*\]\(([^)#]+)\) \|", re.MULTILINE)


def sections(index: Path) -> list[tuple[str, list[str]]]:
    """Return the headings of the index, each with the pages listed in its tables.

    Parameters
    ----------
    index : Path
        ``docs/index.md``.

    Returns
    -------
    list of (str, list of str)
        Pages are named from the root of the checkout, without suffix.
    """
    _, *parts = _SECTION.split(index.read_text(encoding="utf-8"))
    root = index.parents[1]
    return [
        (heading, [_page(index.parent / link, root) for link in _ROW.findall(text)])
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    ]


def _page(path: Path, root: Path) -> str:
    return str(PurePosixPath(path.resolve().relative_to(root)).with_suffix(""))


def _tree(entries: list[str], caption: str = "", *, by_name: bool = False) -> str:
    named = [f":caption: {caption}"] if caption else []
    options = [":hidden:", ":titlesonly:", *named, *([":glob:"] if by_name else [])]
    return "\n".join(["\n```{toctree}", *options, "", *entries, "```\n"])


def _add_trees(app: Sphinx, page: str, source: list[str]) -> None:
    if page == app.config.root_doc:
        index = Path(app.srcdir) / f"{_INDEX}.md"
        trees = [_tree([f"/{_INDEX}"])]
        trees += [
            _tree([f"/{entry}" for entry in entries if entry != page], heading)
            for heading, entries in sections(index)
        ]
        source[0] += "".join(trees)
    elif page in _FOLDERS and any((Path(app.srcdir) / page).parent.glob(f"{_FOLDERS[page]}.md")):
        source[0] += _tree([_FOLDERS[page]], by_name=True)


def _level_captions(
    app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object
) -> None:
    """Set the heading level of sidebar captions, which screen readers require."""
    del app, page, template, tree
    sidebar = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = sidebar.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the page trees, and the correction of the sidebar captions."""
    app.connect("source-read", _add_trees)
    app.connect("html-page-context", _level_captions, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
