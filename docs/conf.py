"""The documentation site, built by Sphinx from plain Markdown: `make docs`.

The pages stay as they are read in a repository browser, and the site has the repository's own
layout, so that a link which works in one works in the other. What only a site has (navigation,
the API reference, live pages) is added here while a page is read.
"""

import importlib
import inspect
import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util import inspect as typing

import marc

ROOT = Path(__file__).parents[1]

project = "MARC"
author = "the MARC authors"
copyright = "the MARC authors, Apache-2.0"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "docs/*/*.md", "docs/notebooks/*.ipynb", "training/*.md"]
exclude_patterns = [".*", "src", "tests", "benchmarks", "demo", "dist", "runs", "stores", "studies"]
exclude_patterns += ["sweeps", "training/work", "docs/_build", "docs/_gallery"]

NAVIGATION = {
    "Begin": ["At a glance </README>", "own-pictures", "notebooks/your-own-pictures", "gallery"],
    "Use": [
        *("commands", "python", "methods", "notebooks/compare-methods"),
        *("embedding", "sources", "protocol", "export"),
    ],
    "Extend": ["notebooks/your-own-method", "extending", "api", "tour"],
    "Study": ["finding", "lab", "study", "replicate"],
    "Results": ["results/*"],
    "Rely on": ["serving", "reliability", "performance", "scale", "/SECURITY", "glossary"],
    "Project": ["/CHANGELOG", "/CONTRIBUTING", "/training/README"],
}

html_theme = "furo"
html_title = "MARC"
html_static_path = ["static"]
html_extra_path = [str(path) for path in [ROOT / "docs" / "_gallery"] if path.is_dir()]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sphinx = False

myst_heading_anchors = 4  # as repository browsers make them
nb_execution_mode = "off"  # tests run the notebooks and hold them to their stored outputs
suppress_warnings = ["misc.highlighting_failure"]  # a console block may hold any output
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

default_role = "literal"  # `name` in a docstring is code, as in Markdown
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88


def _reference(name: str) -> str:
    """The directive that documents one public name."""
    value = getattr(marc, name)
    if callable(value) and inspect.ismodule(value):  # a package that is also a verb
        home = re.search(rf"from (\S+) import {name} as", inspect.getsource(marc))
        assert home, f"marc/__init__.py does not say for type checkers where {name} is"
        verb = getattr(importlib.import_module(home[1]), name)
        signature = typing.stringify_signature(inspect.signature(verb), unqualified_typehints=True)
        text = GoogleDocstring(inspect.getdoc(verb) or "").lines()
        return "\n   ".join([f".. py:function:: {name}{signature}", "", *text])
    if inspect.ismodule(value):
        return f".. automodule:: {value.__name__}"
    kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
    return f".. auto{kind}:: {name}"


def _add_what_only_a_site_has(app: Sphinx, page: str, source: list[str]) -> None:
    if page == root_doc:
        for caption, pages in NAVIGATION.items():
            options = f":hidden:\n:glob:\n:caption: {caption}\n\n"
            source[0] += f"\n```{{toctree}}\n{options}" + "\n".join(pages) + "\n```\n"
    elif page == "docs/api":  # a list of names becomes what their docstrings say
        names = r"^- `marc\.(\w+)`.*$"
        source[0] = re.sub(
            names,
            lambda found: f"```{{eval-rst}}\n.. currentmodule:: marc\n{_reference(found[1])}\n```",
            source[0],
            flags=re.MULTILINE,
        )
    elif page == "docs/gallery":  # a picture of a page that was made leads to it
        for made in sorted((ROOT / "docs" / "_gallery").glob("pages/*/*.html")):
            picture = rf"(!\[.*\]\(images/gallery/{made.parent.name}\.jpg\))"
            address = f"../pages/{made.parent.name}/{made.name}"
            source[0] = re.sub(picture, rf"<a href=\"{address}\">\n\n\1\n\n</a>", source[0])


def _lead_to_the_first_page(app: Sphinx, failure: Exception | None) -> None:
    if failure is None and app.builder.format == "html":
        to = f'<meta http-equiv="refresh" content="0; url={root_doc}.html">'
        (Path(app.outdir) / "index.html").write_text(f"<!doctype html><title>MARC</title>{to}\n")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_what_only_a_site_has)
    app.connect("build-finished", _lead_to_the_first_page)
