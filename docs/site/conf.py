"""Settings of the site, for Sphinx; scripts/docs_site.py writes the pages and starts it."""

import os

from unisono import __version__

project = "Unisono"
author = "the authors of Unisono"
copyright = "the authors of Unisono, Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
# HTML comments mark what benchmarks write; they are not for readers.
myst_enable_extensions = ["attrs_inline"]
suppress_warnings = [
    "misc.highlighting_failure",  # output of commands is not always valid in its language
    "myst.header",  # sections of decisions begin where their template says
]
default_role = "py:obj"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # attributes that a property describes too are not described twice

html_theme = "furo"
html_title = f"Unisono {__version__}"
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
html_js_files = [("versions.js", {"defer": "defer"})]
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
# Where a release's site stands below the root, such as "0.1.0/"; scripts/docs_site.py says so.
_own = os.environ.get("UNISONO_SITE_PATH", "")
html_context = {"own_path": _own, "site_root": "../" if _own else ""}
