"""The documentation site: its reference has every public name, and its lists have every page."""

import re

from places import DOCS, PROJECT

import keras_bert
from keras_bert.models.base import BertModel


def test_the_reference_has_every_public_name():
    pages = "\n".join(page.read_text("utf-8") for page in (DOCS / "api").glob("*.md"))
    described = set(re.findall(r"^\.\. auto(?:class|function):: \S+\.(\w+)$", pages, re.M))
    assert set(keras_bert.__all__) - described == {"__version__"}


def test_the_reference_has_every_class_of_answers():
    described = (DOCS / "api" / "texts.md").read_text("utf-8")
    for path in (PROJECT / "keras_bert" / "tasks").glob("*/answers.py"):
        for name in re.findall(r"^class ([A-Z]\w+)", path.read_text("utf-8"), re.M):
            assert f".. autoclass:: keras_bert.tasks.{path.parent.name}.answers.{name}\n" in described


def test_the_site_lists_every_page():
    lists = re.findall(r"```{toctree}\n(.*?)```", (DOCS / "index.md").read_text("utf-8"), re.S)
    listed = {line for one in lists for line in one.splitlines() if line and not line.startswith(":")}
    assert listed == {*(page.stem for page in DOCS.glob("*.md")), "api/index"} - {"index"}


def test_the_reference_shows_the_inherited_verbs_of_every_model():
    page = (DOCS / "api" / "models.md").read_text("utf-8")
    shown = set(re.findall(r"^\.\. autoclass:: keras_bert\.(\w+)\n   :inherited-members: Model$", page, re.M))
    models = {name for name in keras_bert.__all__ if _is_model(getattr(keras_bert, name))}
    assert models - shown == {"Encoder"}  # its page lists its verbs


def _is_model(item) -> bool:
    return isinstance(item, type) and issubclass(item, BertModel)
