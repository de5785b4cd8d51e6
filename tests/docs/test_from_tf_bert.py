"""The page for people who trained with transformers' TensorFlow classes: its scripts run on a folder of theirs."""

import re

import numpy as np
import pytest
from places import DOCS

import keras_bert
from keras_bert.checkpoints.formats import read_checkpoint
from keras_bert.registry import families

PAGE = (DOCS / "from_tf_bert.md").read_text("utf-8")


def test_the_scripts_run_one_after_the_other(eagerly, my_model, capsys):
    before = read_checkpoint(my_model)
    names = {}
    for program in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(program, "from_tf_bert.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "loaded are: encoder; newly initialised are: classifier" in printed
    assert f"{names['answers'][0].label} {names['answers'][0].probability}" in printed
    probability = names["answers"][0].probability
    logits = np.asarray(names["logits"])[0]
    assert np.exp(logits).max() / np.exp(logits).sum() == pytest.approx(probability, rel=1e-5)
    for folder in ("my_classifier", "for_transformers"):
        written = read_checkpoint(folder)
        assert written.labels == ("bad", "good")
        kernel = "encoder/layer_0/attention/query/kernel"
        assert not np.array_equal(written.tensors[kernel].read(), before.tensors[kernel].read())


def test_the_classes_and_families_that_the_page_names_exist():
    rows = re.findall(r"^\| `TF.*\| (.*) \|$", PAGE, re.M)
    ours = {name for row in rows for name in re.findall(r"`(\w+)`", row) if name[0].isupper()}
    assert {"Encoder", "SpanClassifier", "TransformerXL"} <= ours <= set(keras_bert.__all__)
    known = {entry.hugging_face.classes for entry in families(has=lambda entry: entry.hugging_face).values()}
    listed = re.search(r"stands for (.*?): here", PAGE, re.S)[1]
    assert set(re.findall(r"`(\w+)`", listed)) <= known
