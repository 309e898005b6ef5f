"""Sphinx configuration: myst pages, the API from docstrings, the executed notebooks as a gallery."""

from __future__ import annotations

import base64
import json
import re
import runpy
import shutil
import warnings
from pathlib import Path
from typing import Any

import structopt

HERE = Path(__file__).parent

project = "structopt"
author = "The structopt developers"
copyright = author
version = release = structopt.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # copies MathJax into the site
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "_templates", "**.ipynb_checkpoints"]
templates_path = ["_templates"]

# The committed outputs are the gallery; `make test-notebooks` runs them.
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

# The copy button drops prompts and output. An empty line after "..." ends a function in a Python prompt.
copybutton_prompt_text = r">>> |\.\.\. ?|\$ "
copybutton_prompt_is_regexp = True

default_role = "py:obj"  # a name in single backticks is a link if it has an API page
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc sections say the types in words
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "structopt"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    # Notebooks have no list of sections, because their code needs the width.
    "secondary_sidebar_items": {
        page: ["page-toc"]
        for page in ("api/**", "howto/**", "tutorial", "mathematics/**", "reproductions", "benchmarks")
    },
    "navbar_align": "left",
    "header_links_before_dropdown": 9,
    "show_prev_next": True,
}
html_sidebars = {page: [] for page in ("index", "tutorial", "glossary", "reproductions", "benchmarks")}
html_show_sourcelink = False

# scikit-learn warns about its own future in some signatures; that is not this project's documentation.
warnings.filterwarnings("ignore", category=FutureWarning)


def _copy_notebooks() -> None:
    """Copy the notebooks below this folder, where Sphinx reads sources, and write a thumbnail of each."""
    target = HERE / "notebooks"
    target.mkdir(exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    for notebook in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
        shutil.copyfile(notebook, target / notebook.name)
        (target / f"{notebook.stem}.png").write_bytes(_first_picture(notebook))


def _first_picture(notebook: Path) -> bytes:
    """Return the first picture among the outputs of a notebook."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                return base64.b64decode("".join(output["data"]["image/png"]))
    raise ValueError(f"{notebook.name} has no picture for the gallery.")


def _tidy(app: Any, name: str, source: list[str]) -> None:
    """Doctests in Markdown end with an empty line, or the fence would count as output; readers need not see it."""
    source[0] = re.sub(r"\n\n+```\n", "\n```\n", source[0]) if ">>>" in source[0] else source[0]


def setup(app: Any) -> None:
    app.connect("source-read", _tidy)


_copy_notebooks()
runpy.run_path(str(HERE / "parameters.py"), run_name="__main__")
runpy.run_path(str(HERE / "capabilities.py"), run_name="__main__")
runpy.run_path(str(HERE / "results.py"), run_name="__main__")
# A stub of an object that has left the tables would be a warning, and so an error.
shutil.rmtree(HERE / "api" / "generated", ignore_errors=True)
