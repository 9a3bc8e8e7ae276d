"""The documentation: Markdown pages of the whole repository and a reference made from docstrings.

The source is the root of the repository, so that a link leads to the same file in the site, in an editor and
on a code host. Everything that a page needs is inside the site: it opens from the disk, with search.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.logging import getLogger

import discreet

ROOT = Path(__file__).resolve().parent.parent
TEXTS: dict[str, tuple[str, str]] = {}
API = ROOT / "docs" / "reference" / "api"

project = "discreet"
author = "the discreet authors"
version = release = discreet.__version__
html_title = f"discreet {version}"

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
]

# Which files are pages. A page that no table of contents names is a warning, and warnings stop the build.
root_doc = "docs/index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
PAGES = {"docs", "proofs", "reproductions", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
exclude_patterns = ["docs/_*", *(path.name for path in ROOT.iterdir() if path.name not in PAGES)]
include_patterns = ["*.md", "docs/**", "proofs/**", "reproductions/README.md"]
default_role = "py:obj"  # `name` in a docstring: a link where it is a name of ours, else code
templates_path = [str(ROOT / "docs" / "_templates")]

myst_enable_extensions = ["dollarmath", "fieldlist"]
myst_heading_anchors = 4

autosummary_generate = True
# Release and release would be one file where names of files do not tell capitals.
autosummary_filename_map = {
    f"discreet.{name}": f"discreet.{name}-class"
    for name in dir(discreet)
    if name != name.lower() and name.lower() in dir(discreet)
}
autodoc_default_options = {"members": True, "inherited-members": True, "member-order": "alphabetical"}
autodoc_typehints = "none"  # the sections of a docstring say what each parameter may be
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # methods are shown in full on the page of their class

html_theme = "pydata_sphinx_theme"
html_theme_options: dict[str, Any] = {
    "logo": {"text": "discreet"},
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button-field"],
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "show_toc_level": 2,
    "footer_start": [],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = "docs/_static/scorer.js"
html_math_renderer = "mathml"
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_copyright = False
html_sidebars = {"docs/index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

FETCHED = re.compile(
    r"""<script[^>]+src=["']?(?:https?:)?//[^\s"'>]+"""
    r"""|<link(?=[^>]+rel=["']?(?:stylesheet|preconnect|preload|icon))[^>]+href=["']?(?:https?:)?//[^\s"'>]+"""
    r"""|<(?:img|iframe|source)[^>]+src=["']?(?:https?:)?//[^\s"'>]+"""
    r"""|url\(["']?(?:https?:)?//[^\s"')]+"""
    r"""|@import\s+["'](?:https?:)?//[^\s"']+""",
    re.IGNORECASE,
)
FRONT = """<!doctype html>
<meta charset="utf-8">
<title>discreet</title>
<meta http-equiv="refresh" content="0; url={0}">
<a href="{0}">discreet</a>
"""


def is_inherited_from_elsewhere(
    app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what scikit-learn, Enum or Exception add to a class of ours."""
    function = getattr(member, "fget", None) or getattr(member, "func", None) or member
    is_ours = (getattr(function, "__module__", None) or "").partition(".")[0] == "discreet"
    return True if callable(function) and not is_ours else None


def write_mathml(translator: Any, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML, which browsers show by themselves: no script, no fonts."""
    as_block = isinstance(node, nodes.math_block)
    try:
        translator.body.append(latex2mathml.tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        getLogger(__name__).warning("formula not understood: %s", error, location=node)
    raise nodes.SkipNode


def keep_text_for_search(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Keep what a page says, for the lines below a search result; the page of the search gets all of it."""
    if doctree is not None:
        body = re.sub(r"(?s)<h1>.*?</h1>|<a class=.headerlink.*?</a>", "", context["body"])
        words = " ".join(re.sub(r"(?s)<.*?>", " ", body).split())
        TEXTS[f"{page}.html"] = (re.sub(r"<.*?>", "", context["title"]), words)
    elif page == "search":
        app.add_js_file("search-texts.js")
        app.add_js_file("search-from-disk.js")


def remove_reference_sources(app: Sphinx, exception: Exception | None = None) -> None:
    """Remove the pages that autosummary writes between the sources: after a build, and what one left."""
    shutil.rmtree(API, ignore_errors=True)


def finish_site(app: Sphinx, exception: Exception | None) -> None:
    """Lead the top of the site to its first page, and refuse a site that fetches from elsewhere."""
    if exception is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    texts = f"const PAGE_TEXTS = {json.dumps(TEXTS, ensure_ascii=False)};\n"
    (site / "_static" / "search-texts.js").write_text(texts, "utf-8")
    (site / "index.html").write_text(FRONT.format(f"{root_doc}.html"), "utf-8")
    addresses = [
        f"{path.relative_to(site)}: {match.group()}"
        for path in sorted(site.rglob("*"))
        if path.suffix in {".html", ".css"}
        for match in FETCHED.finditer(path.read_text("utf-8"))
    ]
    if addresses:
        raise SphinxError("the site would fetch from elsewhere:\n" + "\n".join(addresses))


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("mathml", (write_mathml, None), (write_mathml, None))
    app.connect("builder-inited", remove_reference_sources, priority=100)  # before autosummary writes them
    app.connect("build-finished", remove_reference_sources)
    app.connect("autodoc-skip-member", is_inherited_from_elsewhere)
    app.connect("html-page-context", keep_text_for_search)
    app.connect("build-finished", finish_site)
