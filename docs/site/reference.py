"""Render docstrings: program statements unchanged, types by short names."""

import re

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

#: A module that opens with its mathematics, aligned by hand.
_STATEMENT = re.compile(r"\.(program|[a-z]+_program)$")
_NAMED = ("class", "exception", "data", "type", "function")
_ARRAYS = {
    "int64": "IntArray",
    "float64": "FloatArray",
    "bool": "BoolArray",
}
_ARRAY = re.compile(
    r"~?(?:numpy\.)?ndarray\[tuple\[~?(?:typing\.)?(?:Any|int), \.\.\.\], "
    r"~?(?:numpy\.)?dtype\[~?(?:numpy\.)?(\w+)\]\]"
)


def _as_written(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Keep aligned text of a module's docstring unchanged."""
    del app, obj, options
    if what != "module":
        return
    if _STATEMENT.search(name) and any(lines[1:]):
        lines[1:] = ["", "::", "", *(f"    {line}" for line in lines[1:]), ""]
        return
    for place in reversed(range(2, len(lines))):
        begins = lines[place].startswith("    ") and not lines[place - 1]
        before = next((line for line in reversed(lines[:place]) if line), "")
        if begins and not before.startswith("    ") and not before.endswith("::"):
            lines[place:place] = ["::", ""]


def _short(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: object,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Replace array types by their names in `formulations.arrays`."""
    del app, what, name, obj, options
    return _renamed(signature), _renamed(returned)


def _renamed(text: str | None) -> str | None:
    return text and _ARRAY.sub(lambda found: _ARRAYS.get(found[1], found[0]), text)


def _by_last_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.Node
) -> nodes.reference | None:
    """Resolve a class by its last name, because lazily read annotations give no full name."""
    if node.get("refdomain") != "py":
        return None
    domain = env.domains.python_domain
    last = "." + node["reftarget"].rpartition(".")[2]
    found = {
        (entry.docname, entry.node_id)
        for name, entry in domain.objects.items()
        if name.endswith(last) and entry.objtype in _NAMED
    }
    if len(found) != 1:
        return None
    ((page, place),) = found
    return make_refnode(app.builder, node["refdoc"], page, place, [text], last[1:])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the handlers of autodoc events."""
    # Before numpydoc, which adds to the lines.
    app.connect("autodoc-process-docstring", _as_written, priority=100)
    app.connect("autodoc-process-signature", _short)
    app.connect("missing-reference", _by_last_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
