import json

import numpy as np
import pytest

from data_prep.finetuning.conll import read_tagged_sentences
from data_prep.finetuning.labelled_text import read_labelled_text
from data_prep.text.corpus import input_size, list_sources, read_documents
from data_prep.text.tfds_text import check_name, read_examples
from keras_bert.program.errors import InputError

tfds = pytest.importorskip("tensorflow_datasets")

ARTICLES = ["First paragraph.\n\nSecond paragraph.", "Another article.", "Köln liegt am Rhein."]


def prepare(folder, name, features, **splits):
    """Prepares a data set with these examples in each split, as by `tfds build`; returns the folder."""
    of_class = {
        "__module__": __name__,
        "VERSION": tfds.core.Version("1.0.0"),
        "_info": lambda self: self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features)),
        "_split_generators": lambda self, dl_manager: {split: enumerate(rows) for split, rows in splits.items()},
        "_generate_examples": None,
    }
    type(name, (tfds.core.GeneratorBasedBuilder,), of_class)(data_dir=folder).download_and_prepare()
    return str(folder)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A folder with the data set `tiny_articles`."""
    features = {"title": tfds.features.Text(), "text": tfds.features.Text(), "number": np.int64}
    rows = [{"title": f"Title {number}", "text": text, "number": number} for number, text in enumerate(ARTICLES)]
    return prepare(tmp_path_factory.mktemp("tfds"), "TinyArticles", features, train=rows, test=rows[:1])


def test_each_example_is_a_document_in_an_order_that_repeats(data_dir):
    first = list(read_documents("tfds:tiny_articles", tfds_data_dir=data_dir))
    assert sorted(first) == [["Another article."], ["First paragraph.", "Second paragraph."], ["Köln liegt am Rhein."]]
    assert list(read_documents("tfds:tiny_articles", tfds_data_dir=data_dir)) == first


def test_split_version_and_field_can_be_chosen(data_dir):
    named = "tfds:tiny_articles:1.0.0@test"
    assert list(read_documents(named, text_field="title", tfds_data_dir=data_dir)) == [["Title 0"]]
    assert len(list(read_documents("tfds:tiny_articles@train[:2]", tfds_data_dir=data_dir))) == 2
    assert len(list(read_documents("tfds:tiny_articles@train+test", tfds_data_dir=data_dir))) == 4


def test_a_data_set_and_a_file_can_be_read_together(data_dir, tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "From a file."}))
    patterns = f"{tmp_path}/a.jsonl,tfds:tiny_articles@test"
    expected = [["From a file."], ["First paragraph.", "Second paragraph."]]
    assert list(read_documents(patterns, tfds_data_dir=data_dir)) == expected


@pytest.mark.parametrize("split", ["train", "test", "train[:2]", "train+test"])
def test_progress_adds_up_to_the_size(data_dir, split):
    steps = []
    name = f"tfds:tiny_articles@{split}"
    list(read_documents(name, tfds_data_dir=data_dir, on_progress=steps.append))
    assert sum(steps) == input_size(name, tfds_data_dir=data_dir) > 0


def test_names_are_those_of_the_catalogue():
    assert check_name("tfds:wikipedia/20230601.en:1.0.0@train[:1%]") == ("wikipedia/20230601.en:1.0.0", "train[:1%]")
    assert list_sources("tfds:b,tfds:a,tfds:b") == ["tfds:b", "tfds:a"]


def test_a_name_of_another_form_is_refused_before_reading_starts():
    with pytest.raises(InputError, match="not of the form tfds:NAME"):
        read_documents("tfds:two words")


@pytest.mark.parametrize(
    ("name", "field", "message"),
    [
        ("no_such_data_set", "text", "tfds:no_such_data_set: tensorflow_datasets does not know it"),
        ("tiny_articles@validation", "text", "has no split 'validation'. It has: test, train"),
        ("tiny_articles", "body", "has no text field 'body'. Its text fields are: text, title"),
        ("tiny_articles", "number", "has no text field 'number'. Its text fields are: text, title"),
    ],
)
def test_an_unknown_data_set_split_or_field_is_refused_with_those_that_exist(data_dir, name, field, message):
    with pytest.raises(InputError, match=message):
        list(read_documents(f"tfds:{name}", text_field=field, tfds_data_dir=data_dir))


@pytest.fixture(scope="module")
def nested_data_dir(tmp_path_factory):
    """A data set whose texts lie below other features, in lists, and beside a translation."""
    text = tfds.features.Text()
    features = {
        "body": {"title": text, "lines": tfds.features.Sequence(text), "number": np.int64},
        "parts": tfds.features.Sequence({"heading": text, "lines": tfds.features.Sequence(text)}),
        "both": tfds.features.Translation(languages=("de", "en")),
    }
    article = {"body": {"title": "A title", "lines": ["One.", "Two."], "number": 1}}
    article["parts"] = [{"heading": "H", "lines": ["a", "b"]}, {"heading": "I", "lines": []}]
    article["both"] = {"de": "Köln", "en": "Cologne"}
    return prepare(tmp_path_factory.mktemp("tfds"), "NestedArticles", features, train=[article])


@pytest.mark.parametrize(
    ("field", "lines"),
    [
        ("body/title", ["A title"]),
        ("body/lines", ["One.", "Two."]),
        ("parts/heading", ["H", "I"]),
        ("parts/lines", ["a", "b"]),
        ("both/de", ["Köln"]),
    ],
)
def test_texts_below_other_features_and_in_lists_are_found(nested_data_dir, field, lines):
    assert list(read_documents("tfds:nested_articles", text_field=field, tfds_data_dir=nested_data_dir)) == [lines]


@pytest.mark.parametrize("field", ["text", "body", "body/number", "body/title/more"])
def test_a_field_that_is_no_text_is_refused_with_the_paths_of_those_that_are(nested_data_dir, field):
    expected = f"no text field '{field}'. Its text fields are: body/lines, body/title, both/de, both/en, parts/heading"
    with pytest.raises(InputError, match=expected):
        list(read_documents("tfds:nested_articles", text_field=field, tfds_data_dir=nested_data_dir))


EXAMPLE = {"text": "K\u00f6ln", "tags": ["O", "B-X"], "words": ["in", "K\u00f6ln"], "score": 0.5}


def test_examples_come_as_json_would_have_them(tmp_path, monkeypatch):
    features = {
        "text": tfds.features.Text(),
        "label": tfds.features.ClassLabel(names=["no", "yes"]),
        "tags": tfds.features.Sequence(tfds.features.ClassLabel(names=["O", "B-X"])),
        "words": tfds.features.Sequence(tfds.features.Text()),
        "answers": tfds.features.Sequence({"text": tfds.features.Text(), "answer_start": np.int32}),
        "score": np.float64,
    }
    row = {**EXAMPLE, "answers": [{"text": "K", "answer_start": 0}, {"text": "n", "answer_start": 3}]}
    train, test = ([{**row, "label": label}] for label in ("yes", -1))
    prepare(tmp_path, "TinyQuestions", features, train=train, test=test)
    (example,) = read_examples("tfds:tiny_questions", str(tmp_path))
    assert example == {**EXAMPLE, "label": "yes", "answers": {"text": ["K", "n"], "answer_start": [0, 3]}}
    assert next(read_examples("tfds:tiny_questions@test", str(tmp_path)))["label"] is None

    # Every reader takes the name in place of a file.
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path))
    found = read_labelled_text("tfds:tiny_questions")
    assert (found.texts, found.labels) == (["K\u00f6ln"], ["yes"])
    tagged = read_tagged_sentences("tfds:tiny_questions", text_column="words")
    assert (tagged.words, tagged.tags) == ([["in", "K\u00f6ln"]], [["O", "B-X"]])
    with pytest.raises(InputError, match="example 1: the label in column 'label' is None"):
        read_labelled_text("tfds:tiny_questions@test")
