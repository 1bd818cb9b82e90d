"""How Sphinx builds the documentation: ``make docs``."""

import sys
import warnings
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

project = "daskfc"
author = "the authors of daskfc"
copyright = f"2026, {author}"
version = release = version_of("daskfc")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "sphinx_design",
    "declared",
    "mathml",
]
exclude_patterns = ["_build", "progress.md", "examples/**"]

html_theme = "pydata_sphinx_theme"
html_title = f"daskfc {release}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
smartquotes_action = "qe"  # no dashes: --workspace is two
html_math_renderer = "mathml"  # MathJax would come from another place, which hospitals do not reach
copybutton_prompt_text = r">>> |\.\.\. |\$ |[\w-]+\$ "
copybutton_prompt_is_regexp = True
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

default_role = "autolink"  # `name` in a docstring is a link where there is something of that name
autodoc_typehints = "none"  # numpydoc's sections say them in words
templates_path = ["_templates"]
autosummary_generate = True
autosummary_ignore_module_all = False
numpydoc_show_class_members = False  # autodoc shows them


# What other projects define, and what stands for itself: there is no page here to link to.
nitpick_ignore_regex = [(r"py:.*", r"(?!daskfc).*")]
# Where docstrings point a developer to a file: internals have no page.
nitpick_ignore = [
    ("py:class", "daskfc.federation.messages.declaration._Declared"),
    *(
        ("py:obj", f"daskfc.{name}")
        for name in (
            "checks",
            "clustering.kernels.width.width_of_moments",
            "coding.KeyStream",
            "federation.worker.guard",
            "federation.driver.opening.open_existing",
            "federation.driver.opening.open_local",
            "protocols.esfmc",
            "protocols.fedsc.privacy",
            "stores.store.prepared",
        )
    ),
]

warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 0,
    "remove_config_comments": True,
}
