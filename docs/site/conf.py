"""Configure the documentation site; ``make docs`` builds it, and every warning is an error.

The sources are the pages of the checkout (README, ``docs/``, READMEs of studies), so that a link
means the same on a code host and here. All scripts, styles, fonts and images are local, and the
search works on pages opened as files.
"""

import sys
from pathlib import Path

from sphinx.application import Sphinx

from bfio.version import __version__

sys.path.insert(0, str(Path(__file__).parent))

project = "bfio"
author = "the bfio authors"
project_copyright = author
release = version = __version__
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "numpydoc",
    "additions",
]
root_doc = "README"
include_patterns = [
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**", "benchmarks/**.md",
    "proofs_checks/**.md",
]  # fmt: skip
exclude_patterns = [".*", "out", "build", "dist", "tests", "**/__pycache__", "docs/site"]
nitpicky = True

# MyST: anchors of headings as code hosts make them, `$...$` mathematics.
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
myst_all_links_external = False

# Notebooks: run at every build; an error in one is an error of the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_show_tb = True  # else a build on another machine does not say which line failed
nb_execution_timeout = 300
nb_merge_streams = True
nb_render_markdown_format = "myst"

# The reference: what a package offers in `__all__`, in the order of the source.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
numpydoc_show_class_members = False
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
# A name in backticks, or a type in a signature, is a link where it is a name of the reference.
nitpick_ignore_regex = [
    ("py:obj", ".*"),
    ("py:class", ".*"),
]

html_theme = "furo"
html_title = f"bfio {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
templates_path = ["templates"]
html_additional_pages = {"index": "redirect.html"}
html_copy_source = False
html_show_sourcelink = False
# Summaries of results are fetched, which pages opened as files may not do.
html_show_search_summary = False
html_theme_options = {"navigation_with_keys": False}


def setup(app: Sphinx) -> None:
    """Register nothing: the extension beside this file does the work."""
    del app
