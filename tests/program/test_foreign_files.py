"""Files from strangers: reading is bounded by their size, and names and links in them do not lead out of the folder."""

import contextlib
import json
import os
import shutil

import pytest
from bounded_memory import memory_below
from checkpoints.test_checkpoints_of_other_keras import write_preset
from tiny_checkpoints import random_checkpoint

from keras_bert import InputError
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.program.foreign_files import LARGEST_FILE, check_links, inside
from keras_bert.program.json_files import read_json
from keras_bert.tf_serving.kit.making import make_serving_kit
from keras_bert.tokenization.byte_pair import byte_alphabet
from keras_bert.tokenization.kinds import find_vocabulary
from keras_bert.tokenization.tokenizer import ROBERTA_SPECIAL_TOKENS

SENTENCE = {"pooling": ["mean"], "dense": [], "normalize": True, "prompts": {}, "default_prompt": None}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    checkpoint = random_checkpoint(form.CLASSIFIER, labels=("no", "yes"))
    for format in ("huggingface", "google", "keras_bert"):
        write_checkpoint(checkpoint, folder / format, format)
    write_preset(folder / "keras_hub", checkpoint, "BertTextClassifier")
    sentence = random_checkpoint().telling("SentenceEncoder", {**SENTENCE, "max_seq_length": None})
    write_checkpoint(sentence, folder / "sentence", "huggingface")
    return folder


@pytest.fixture
def folder(tmp_path):
    """A folder with a file, a folder and links that stay inside; beside it a secret."""
    (tmp_path / "secret/sub").mkdir(parents=True)
    (tmp_path / "secret/file").write_text("secret")
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "file").write_text("")
    (folder / "same").symlink_to("sub")
    (folder / "sub/file").symlink_to("../file")
    return folder


@pytest.mark.parametrize("name", ["", "file", "sub", "sub/file", "same/file", "./sub/../file", "new"])
def test_a_name_inside_the_folder_is_a_path(folder, name):
    assert inside(folder, name, "modules.json") == os.path.join(folder, os.path.normpath(name))
    check_links(folder, "sub", "same")


@pytest.mark.parametrize(
    "name",
    ["../secret", "../model2", "/etc", "sub/../../secret", "in/sub", "in/sub/new", "in", "chain/sub", "a\0b", "\ud800"],
)
def test_a_name_that_leads_out_of_the_folder_is_refused(folder, name):
    (folder / "in").symlink_to("../secret")
    (folder / "sub/out").symlink_to("../in")
    (folder / "chain").symlink_to("sub/out")
    with pytest.raises(InputError, match="^modules.json: .* is not inside the folder of the model"):
        inside(folder, name, "modules.json")


def linked(file, target):
    """Replaces a file or folder by a link to it at another place."""
    shutil.move(file, target)
    file.symlink_to(target)


@pytest.mark.parametrize(
    ("format", "names"),
    [
        ("huggingface", ["config.json", "model.safetensors", "vocab.txt"]),
        ("google", ["bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"]),
        ("keras_bert", ["bert_config.json", "model.weights.h5"]),
        ("keras_hub", ["assets/tokenizer/vocabulary.txt", "assets"]),
        ("sentence", ["1_Pooling", "1_Pooling/config.json", "modules.json"]),
    ],
)
def test_a_model_with_a_link_out_of_its_folder_is_refused(written, tmp_path, format, names):
    for number, name in enumerate(names):
        folder = shutil.copytree(written / format, tmp_path / f"model {number}")
        read_checkpoint(folder)
        linked(folder / name, tmp_path / f"elsewhere {number}")
        with pytest.raises(InputError, match="is a link out of the folder|is not inside the folder"):
            read_checkpoint(folder)


INDEX = "model.safetensors.index.json"


@pytest.mark.parametrize(
    ("format", "moved", "file", "edit"),
    [
        ("sentence", "1_Pooling", "modules.json", lambda modules: [modules[0], {**modules[1], "path": "in/1_Pooling"}]),
        ("huggingface", "model.safetensors", INDEX, lambda _: {"weight_map": {"a": "../model.safetensors"}}),
        ("huggingface", "model.safetensors", INDEX, lambda _: {"weight_map": {"a": "in/model.safetensors"}}),
    ],
)
def test_a_file_of_names_that_lead_out_of_the_folder_is_refused(written, tmp_path, format, moved, file, edit):
    folder = shutil.copytree(written / format, tmp_path / "model")
    (folder / "in").symlink_to(tmp_path)
    shutil.move(folder / moved, tmp_path)
    content = edit(json.loads((folder / file).read_text()) if (folder / file).exists() else None)
    (folder / file).write_text(json.dumps(content))
    with pytest.raises(InputError, match=f"{file}: .* is not inside the folder of the model"):
        read_checkpoint(folder)


def test_a_shard_with_many_names_is_read_once(written, tmp_path, monkeypatch):
    folder, opened = shutil.copytree(written / "huggingface", tmp_path / "model"), []
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    names = {str(number): "./" * number + "part.safetensors" for number in range(50)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    from keras_bert.checkpoints import hugging_face

    read = hugging_face.read_safetensors
    monkeypatch.setattr(hugging_face, "read_safetensors", lambda path: opened.append(path) or read(path))
    assert read_checkpoint(folder).heads == (form.CLASSIFIER,)
    assert len(opened) == 1


@pytest.mark.parametrize("format", ["huggingface", "sentence"])
def test_a_snapshot_in_the_cache_of_the_hub_is_read(written, tmp_path, format):
    snapshot = tmp_path / "models--a--b/snapshots/1"
    shutil.copytree(written / format, snapshot)
    blobs = tmp_path / "models--a--b/blobs"
    blobs.mkdir()
    files = [path for path in snapshot.rglob("*") if path.is_file()]
    for number, file in enumerate(files):
        linked(file, blobs / str(number))
    read_checkpoint(snapshot)
    linked(blobs / "0", tmp_path / "secret")
    with pytest.raises(InputError, match="is a link out of the folder"):
        read_checkpoint(snapshot)


def test_a_kit_copies_no_file_from_outside_the_model(tmp_path):
    model = tmp_path / "model/1"
    model.mkdir(parents=True)
    (model / "saved_model.pb").write_bytes(b"")
    (tmp_path / "secret").write_text("secret")
    (model / "notes.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="notes.txt is a link out of the folder"):
        make_serving_kit(model, tmp_path / "kit")


# Sizes


def tokenizer_json(tokens=(), merges=(), added=(), special=False):
    """A byte-level BPE with these further tokens."""
    tokens = [*byte_alphabet(), *ROBERTA_SPECIAL_TOKENS.names, *tokens]
    ids = {token: number for number, token in enumerate(tokens)}
    entries = [{"id": ids[token], "content": token, "special": special, "normalized": True} for token in added]
    model = {"type": "BPE", "vocab": ids, "merges": list(merges)}
    values = {"added_tokens": entries, "pre_tokenizer": {"type": "ByteLevel"}, "model": model}
    return {"tokenizer.json": json.dumps(values, separators=(",", ":"))}


def merges_txt(text):
    tokens = [*byte_alphabet(), *ROBERTA_SPECIAL_TOKENS.names, "aa"]
    return {"vocab.json": json.dumps({token: number for number, token in enumerate(tokens)}), "merges.txt": text}


def words(count):
    return [f"w{number:x}" for number in range(count)]


def spiece_model(field, content):
    length, number = bytearray(), len(content)
    while number >= 0x80:
        length.append(number & 0x7F | 0x80)
        number >>= 7
    return {"spiece.model": bytes([field << 3 | 2, *length, number]) + content}


HOSTILE = {
    "equal merges": (lambda: merges_txt("a a\n" * 3_000_000), "merges.txt has 3,000,000 lines. At most 1,048,576"),
    "one line of spaces": (lambda: merges_txt(" " * 10_000_000), "merges.txt: line 1 is not a merge"),
    "merges in JSON": (lambda: tokenizer_json(["aa"], ["a a"] * 1_100_000), "1,100,000 merges. At most 1,048,576"),
    "a long added token": (lambda: tokenizer_json(["x" * 8_000_000], (), ["x" * 8_000_000]), "has 8,000,000 char"),
    "added tokens": (lambda: tokenizer_json(words(100_001), (), words(100_001)), "100,001 added tokens. At most"),
    "tokens": (
        lambda: {"vocab.json": json.dumps(dict.fromkeys(words(1_050_000), 0)), "merges.txt": ""},
        "vocab.json has 1,050,000 tokens. At most 1,048,576 are supported",
    ),
    "empty lists": (lambda: {"tokenizer.json": f"[{'[],' * 5_000_000}[]]"}, "10,000,002 values, more than the"),
    "lists in lists": (lambda: {"tokenizer.json": "[" * 4_000_000}, "is nested more than 100 deep"),
    "lines of vocab.txt": (lambda: {"vocab.txt": "\n" * 20_000_000}, "vocab.txt has 20,000,000 lines. At most"),
    "a large vocab.txt": (lambda: {"vocab.txt": "x" * (LARGEST_FILE + 1)}, "vocab.txt has more than 50,331,648 bytes"),
    "empty pieces": (lambda: {"spiece.model": b"\n\0" * 1_100_000}, "2 to 1,048,576 pieces. Received: 1,048,577"),
    "begun pieces": (lambda: {"spiece.model": b"\n" * 4_200_000}, "it has more than 1,048,576 pieces"),
    "a long piece": (lambda: spiece_model(1, b"\x98\x02\x01" * 3_000_000), "2 to 1,048,576 pieces. Received: 1"),
    "settings": (lambda: spiece_model(3, b"\x18\x01" * 5_000_000), "2 to 1,048,576 pieces. Received: 0"),
}


def write_hostile(folder, case) -> int:
    """Writes the files of a case; returns their size."""
    sizes = []
    for name, content in HOSTILE[case][0]().items():
        sizes.append((folder / name).write_bytes(content if isinstance(content, bytes) else content.encode()))
    return sum(sizes)


# Refusing these takes a few times the memory of the file; one case for each way to read.
MEASURED = {"equal merges", "empty lists", "lines of vocab.txt", "settings", "a long piece"}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_tokenizer_that_would_grow_in_memory_is_refused(tmp_path, case):
    size = write_hostile(tmp_path, case)
    with contextlib.ExitStack() as measured:
        if case in MEASURED:
            measured.enter_context(memory_below(5 * size + 20_000_000))
        with pytest.raises(InputError, match=HOSTILE[case][1]):
            find_vocabulary(tmp_path)


def test_many_special_tokens_beside_many_added_ones_are_read_in_linear_time(tmp_path):
    tokens = words(60_000)
    values = json.loads(tokenizer_json(tokens, (), tokens)["tokenizer.json"])
    for entry in values["added_tokens"][::2]:
        entry["special"] = True
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    tokenizer = find_vocabulary(tmp_path)  # quadratic time would be hours
    assert [sum(token.special is one for token in tokenizer.added_tokens) for one in (True, False)] == [30_000, 30_000]


def test_a_json_file_of_seventeen_megabytes_is_read(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps([["▁" + "x" * 60, -8.5]] * 250_000, ensure_ascii=False))
    assert (tmp_path / "tokenizer.json").stat().st_size > 17_000_000
    assert len(read_json(tmp_path / "tokenizer.json")) == 250_000
