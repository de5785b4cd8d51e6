"""Settings of the documentation site; `make docs` builds it."""

import inspect
import pathlib
import re
import sys

PROJECT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

project = "keras_bert"
author = "The keras_bert authors"
copyright = author
release = re.search(r'^__version__ = "(.+)"', (PROJECT / "keras_bert" / "__init__.py").read_text("utf-8"), re.M)[1]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_copybutton"]
html_theme = "furo"
html_title = f"keras_bert {release}"
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(PROJECT / "docs" / "static" / "search_scorer.js")
# The design page links the decisions.
suppress_warnings = ["toc.not_included"]

# The pages are Markdown, with links to headings as on GitHub.
myst_heading_anchors = 4

# What is copied has neither prompts nor the output below them: of a block with prompts, its lines with a prompt only.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
copybutton_selector = "div:not(.highlight-text) > div.highlight pre"

# Docstrings are in Google's style; a name in single back quotes is code.
default_role = "literal"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Call arguments", "params_style"), ("Returns", "returns_style"), "Reference"]
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # Keras' own docstrings are in its documentation
autodoc_typehints = "none"
autodoc_mock_imports = ["apache_beam"]  # it has an environment of its own
autodoc_default_options = {"members": True, "show-inheritance": True}


def _mark_code(app, what, name, obj, options, lines: list[str]) -> None:
    """Marks indented blocks after a colon as code. Docstrings write them as Markdown does."""
    for number in range(len(lines) - 2):
        line, blank, block = lines[number : number + 3]
        indent = len(line) - len(line.lstrip())
        if (
            line.endswith(":")
            and not blank
            and block.startswith(" " * (indent + 4))
            and not block.lstrip().startswith("* ")
        ):
            lines[number] = f"{line}:"


def _show_arguments(app, what, name, obj, options, signature, returned):
    """Returns the arguments of a class's constructor. Keras wraps classes, which hides them."""
    if what == "class" and not issubclass(obj, Exception):
        parameters = list(inspect.signature(obj.__init__).parameters.values())[1:]
        bare = [parameter.replace(annotation=parameter.empty) for parameter in parameters]
        return str(inspect.Signature(bare)), returned
    return None


# The inherited methods that the pages of public models show.
_VERBS = ("compile", "fit", "evaluate", "predict", "explain", "calibrate")
_VERBS += ("from_pretrained", "save_pretrained", "export_for_serving")


def _leave_out(app, what, name, obj, skip, options) -> bool | None:
    """Returns True for what a model inherits from Keras, and from `keras_bert.models` if it is no verb."""
    module = getattr(getattr(obj, "fget", obj), "__module__", None)
    if not options.inherited_members or module is None:
        return None
    is_verb = module.startswith("keras_bert.") and name in _VERBS
    inherited = ("keras.", "keras_bert.models.", "keras_bert.tasks.text_model")
    return None if is_verb or not module.startswith(inherited) else True


def _refer_to_base(app, what, name, obj, options, lines: list[str]) -> None:
    """Leaves the first line of the docstring of an inherited verb: the page of the base class has all of it."""
    verb = getattr(obj, "__qualname__", "")
    owner = verb.split(".")[0]
    if what == "method" and owner in ("BertModel", "TaskModel", "TextModel") and owner != name.split(".")[-2]:
        lines[:] = [lines[0], "", f"See :meth:`.{verb}`."]


def setup(app) -> None:
    app.connect("autodoc-skip-member", _leave_out)
    app.connect("autodoc-process-docstring", _refer_to_base, priority=50)
    app.connect("autodoc-process-signature", _show_arguments)
    app.connect("autodoc-process-docstring", _mark_code, priority=100)  # before the sections are read
