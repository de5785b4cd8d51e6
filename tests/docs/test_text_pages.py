"""The pages on text prediction and embeddings are correct: their scripts and commands run unchanged."""

import json
import re
import subprocess
import sys

import pytest
import tiny
from places import DOCS, PROJECT, TESTS

from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.embeddings.vector_index import VectorIndex
from keras_bert.tasks.embedding.model import SentenceEncoder
from keras_bert.tasks.masked_lm.model import MaskedLM
from run_scripts import fill_mask, search_sentences, summarize, word_senses

NAMES = ("text_prediction", "embeddings", "training_embeddings", "sparse_vectors")
PAGES = {name: (DOCS / f"{name}.md").read_text("utf-8") for name in NAMES}
SCRIPTS = [
    pytest.param(name, script, id=f"{name}-{number}")
    for name, page in PAGES.items()
    for number, script in enumerate(re.findall(r"```python\n(.*?)```", page, re.S), start=1)
]
VOCABULARY = tiny.vocabulary("the quick brown bank", *tiny.pieces(), *".,")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Name of a page -> the model that its scripts use; the features of a page are of four layers."""
    return {
        name: write_model(tmp_path_factory.mktemp(name) / "my_bert", num_layers)
        for name, num_layers in zip(NAMES, (1, 4, 1, 1), strict=True)
    }


def write_model(path, num_layers):
    config = tiny.config(VOCABULARY, hidden_size=8, num_hidden_layers=num_layers, max_position_embeddings=128)
    MaskedLM(config).save_pretrained(path, VOCABULARY)
    return path


@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")  # but for tf.data
@pytest.mark.parametrize(("page", "script"), SCRIPTS)
def test_ten_lines_run_as_they_stand(page, script, models, tmp_path, monkeypatch, capsys, eagerly, without_graphs):
    assert len([line for line in script.splitlines() if line]) <= 10
    (tmp_path / "my_bert").symlink_to(models[page])
    (tmp_path / "bge-m3").symlink_to(DOCS.parent / "tests" / "adapter_golden" / "bge_m3")
    monkeypatch.chdir(tmp_path)
    exec(compile(script, "docs", "exec"), {})
    shown = capsys.readouterr().out
    if "model.evaluate(texts)" in script:
        assert "perplexity" in shown
        assert MaskedLM.from_pretrained("my_better_bert").vocabulary == VOCABULARY
    elif "rank(" in script:
        assert len(shown.splitlines()) >= 2
    elif "distil_static" in script:
        assert SentenceEncoder.from_pretrained("my_static").is_static
    elif "my_splade" in script:
        assert from_pretrained(None, "for_sentence_transformers").kind == from_pretrained(None, "my_splade").kind
    elif "save_pretrained" in script:
        assert SentenceEncoder.from_pretrained("for_sentence_transformers").pooling == ("mean",)
    elif "where=" in script:
        assert shown.splitlines()[-1].split()[0] == "3"
    elif "VectorIndex" in script:
        assert len(VectorIndex.load("my_index")) == 4
    elif "project" in script:
        assert shown.count("bank of") == 2


def test_the_pages_have_a_script_for_each_use():
    assert len(SCRIPTS) == 24


@pytest.fixture(scope="module")
def my_bert(models):
    return models["embeddings"]


@pytest.fixture(scope="module")
def texts(my_bert):
    path = my_bert.parent / "texts.txt"
    path.write_text("The quick fox. It sat on the bank.\n\nthe bank lends\nOn a bank of sand.\n", "utf-8")
    return path


@pytest.mark.slow
def test_commands_answer(my_bert, texts):
    folder, model, these = texts.parent, f"--init_checkpoint={my_bert}", f"--input_file={texts}"
    (folder / "more.txt").write_text("The quick fox.\nthe bank lends\nOn sand.\n", "utf-8")
    prompt = ["generate_text", model, "--prompt=the fox", "--length=5"]
    senses = ["--word=bank", "--num_groups=2", f"--output_dir={folder}/senses", "--noplot"]
    index = ["search_sentences", model, f"--index_dir={folder}/index"]
    commands = [
        ["fill_mask", model, "--text=the [MASK] fox [MASK]", "--top_k=2", "--joint", f"--output_file={folder}/fill"],
        [*prompt, "--num_texts=2", "--random_seed=4"],
        [*prompt, "--random_seed=5"],
        ["word_senses", model, these, *senses],
        ["summarize", model, these, "--num_sentences=2", f"--output_file={folder}/sum.json"],
        [*index, these],
        [*index, "--query=the bank lends", "--top_k=1"],
        [*index, f"--input_file={folder}/more.txt", "--append"],
        [*index, "--query=the bank lends", "--top_k=2", "--exact"],
    ]
    (folder / "commands.json").write_text(json.dumps(commands))
    program = [sys.executable, TESTS / "commands_in_turn.py", folder / "commands.json"]
    result = subprocess.run(program, capture_output=True, text=True, cwd=PROJECT, timeout=900)
    parts = re.split(r"^\w+: 0\n", result.stdout, flags=re.M)
    assert len(parts) == len(commands) + 1, result.stderr
    filling, writing, again, meanings, summing, indexing, search, appending, exact, _ = parts
    filled = json.loads((folder / "fill").read_text("utf-8"))
    assert filled["text"] == "the [MASK] fox [MASK]"
    assert filled["filled_text"] in filling
    assert [len(mask["fills"]) for mask in filled["masks"]] == [2, 2]
    written = writing.splitlines()
    assert [line[:7] for line in written] == ["the fox"] * 2
    assert again.splitlines() == written[1:]
    table = (folder / "senses" / "senses.tsv").read_text("utf-8").splitlines()
    assert [line.split("\t")[0] for line in table] == ["text", "1", "2", "3"]
    assert table[2].endswith("\tthe bank lends")
    assert "On a [bank] of sand." in meanings
    summary = json.loads((folder / "sum.json").read_text("utf-8"))
    assert summing.splitlines()[-2:] == [sentence["text"] for sentence in summary["chosen"]]
    assert len(summary["sentences"]) == 4
    assert "3 texts, vectors of 8 numbers" in indexing
    assert search.splitlines()[-2:] == ["the bank lends", "  1.0000  the bank lends"]
    assert "6 texts, vectors of 8 numbers" in appending
    assert exact.splitlines()[-2:] == ["  1.0000  the bank lends"] * 2


@pytest.mark.parametrize(
    ("module", "flags", "error"),
    [
        (fill_mask, ["--text=the fox"], r"Text 1 has no \[MASK\]"),
        (fill_mask, [], "There is nothing to fill in"),
        (
            word_senses,
            ["--input_file=texts.txt", "--word=sun", "--output_dir=none", "--noplot"],
            "'sun' does not occur",
        ),
        (summarize, ["--input_file=empty.txt"], "empty.txt is empty"),
        (search_sentences, ["--index_dir=other", "--query=bank"], "other is not an index: it has no index.json"),
        (search_sentences, ["--query=bank"], "There is nothing to search"),
    ],
)
def test_commands_say_what_is_wrong_in_one_line(my_bert, texts, monkeypatch, refused_here, module, flags, error):
    monkeypatch.chdir(texts.parent)
    (texts.parent / "empty.txt").write_text("", "utf-8")
    (texts.parent / "other").mkdir(exist_ok=True)
    printed = refused_here(module, f"--init_checkpoint={my_bert}", *flags)
    [line] = [line for line in printed.err.splitlines() if line.startswith("error: ")]
    assert re.search(error, line)
