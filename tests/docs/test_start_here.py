"""docs/start_here.md is correct: each of its paths runs as it stands, in an empty folder, and ends with an answer."""

import re
import socket

import h5py
import numpy as np
import pytest
from places import DOCS

PAGE = (DOCS / "start_here.md").read_text("utf-8")
PATHS = dict(re.findall(r"^## (.+?)\n(?:(?!^## ).)*?```(?:python|bash)\n(.*?)```", PAGE, re.S | re.M))
NUMBER = r"0\.\d+"
ANSWERS = {
    "Mails to classify": rf"delivery {NUMBER}\npayment {NUMBER}\naccount {NUMBER}\n$",
    "Names to find": rf"PER Marie Curie {NUMBER}\nLOC Warsaw {NUMBER}\n$",
    "Documents to search": rf"\n{NUMBER} travel.txt Flights need the approval",
    "A model to pre-train": r"\[MASK\] 1:  \S+ +0\.\d+",
    "A model to deploy": rf"score +{NUMBER}",
    "A Keras script": r"\[\[(0\.[5-9]\d? *|1\. *)\]\n \[0\.([0-4]\d?)? *\]\]\n$",
    "A folder from transformers": r"\n22\d{6} weights\n(.*\n)*good\n$",
}


def test_there_are_eight_paths_of_at_most_twenty_lines():
    assert PATHS.keys() == ANSWERS.keys() | {"A TFBert file"}
    listed = re.findall(r"^\| \[(.+?)\]\(#(.+?)\) \|", PAGE, re.M)
    assert [name.lower() for name, _ in listed] == [name.lower() for name in PATHS]
    assert [anchor for _, anchor in listed] == [name.lower().replace(" ", "-") for name in PATHS]
    assert all(len([line for line in script.splitlines() if line]) <= 20 for script in PATHS.values())


@pytest.mark.slow  # minutes in all: each trains or exports a real model
@pytest.mark.parametrize("path", ANSWERS)
def test_a_path_leads_to_an_answer(path, pasted):
    script = PATHS[path]
    if path != "A model to deploy":
        assert re.search(ANSWERS[path], pasted(script))
        return
    with socket.socket() as free:  # another server may have the port of the page
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert re.search(ANSWERS[path], pasted(script.replace("8501", str(port)), "bash"))


def test_a_file_of_tensorflow_becomes_an_answer(eagerly, my_model, tmp_path, capsys):
    theirs, ours = "nsp___cls/tf_bert_for_pre_training/nsp___cls/seq_relationship", "classifier/x/classifier"
    with h5py.File(
        tmp_path / my_model / "tf_model.h5", "a"
    ) as file:  # its head of next sentences becomes that of a classifier
        for name in ("kernel:0", "bias:0"):
            file.copy(f"{theirs}/{name}", f"{ours}/{name}")
        file["classifier"].attrs["weight_names"] = ["x/classifier/kernel:0", "x/classifier/bias:0"]
        file.attrs["layer_names"] = ["bert", "classifier"]
        bias = file[f"{ours}/bias:0"][:]
    exec(compile(PATHS["A TFBert file"], "start_here.md", "exec"), names := {})
    np.testing.assert_array_equal(names["model"].classifier.bias, bias)
    assert len(re.findall(rf"^\w+ {NUMBER}$", capsys.readouterr().out, re.M)) == 2
    assert (tmp_path / "for_transformers" / "model.safetensors").exists()
