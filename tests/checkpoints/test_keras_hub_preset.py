"""Presets for KerasHub: their files, what they hold, and what KerasHub itself computes with them.

KERAS_BERT_KERAS_HUB=/folder/with/keras_hub          put before the path of this Python, for the last test
"""

import json
import os
import sys

import numpy as np
import pytest
from checkpoints.test_checkpoints_of_other_keras import assert_close, run_script, write_preset
from tiny_checkpoints import CONFIG, assert_same_tensors, random_checkpoint
from tiny_families import VOCABULARIES, config_of, word_pieces

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.checkpoints.keras_weights_file import read_keras_weights
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.program.errors import InputError
from keras_bert.tasks.embedding.model import SentenceEncoder
from keras_bert.tokenization.kinds import python_tokenizer

pytestmark = pytest.mark.usefixtures("without_graphs")

TEXTS = ["the fox", "a dog, the dog", "The FOXes? who", "é dog"]
# Settings that KerasHub has, where they differ from the family's defaults.
SHAPES = {
    "bert": {},
    "roberta": {},
    "albert": {"embedding_size": 6, "num_hidden_groups": 2, "inner_group_num": 2},
    "distilbert": {},
    "electra": {"embedding_size": 6, "hidden_act": "gelu", "pooler_act": "tanh"},
}
HUB_HEADS = {"classifier": form.CLASSIFIER, "masked_lm": form.MASKED_LM}


def checkpoint_of(family, *heads, **changes):
    vocabulary = VOCABULARIES.get(family, word_pieces())
    shape = {"hidden_size": 8, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 12}
    shape |= {"vocab_size": len(vocabulary), "max_position_embeddings": 14} | SHAPES.get(family, {}) | changes
    labels = ("no", "yes", "maybe") if form.CLASSIFIER in heads else None
    return random_checkpoint(*heads, config=config_of(family, **shape), labels=labels, vocabulary=vocabulary)


@pytest.mark.parametrize("family", SHAPES)
def test_a_preset_brings_the_checkpoint_back(family, tmp_path):
    heads = () if family == "electra" else (form.CLASSIFIER,)
    checkpoint = checkpoint_of(family, *heads)
    notes = write_checkpoint(checkpoint, tmp_path / "preset", "keras_hub")
    labels = ["KerasHub's presets have no labels; its logits are, in order: 0 no, 1 yes, 2 maybe"]
    assert notes == ([] if family == "electra" else labels)
    found = read_checkpoint(tmp_path / "preset")
    assert found.heads == heads
    assert (found.ignored, found.config.model_type) == ((), family)
    if family == "roberta":  # segment and positions were added
        features = {"input_ids": np.array([[0, 7, 9, 2]]), "input_mask": np.ones((1, 4))}
        ours, theirs = (
            from_pretrained(None, path)(features) for path in (saved(checkpoint, tmp_path), tmp_path / "preset")
        )
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)
    else:
        assert_same_tensors(checkpoint, found)
        assert found.config.replace(do_lower_case=True) == checkpoint.config
    ours, theirs = (python_tokenizer(one.vocabulary, one.config.do_lower_case) for one in (checkpoint, found))
    assert [ours.encode(text) for text in TEXTS] == [theirs.encode(text) for text in TEXTS]


def test_an_xlm_roberta_is_written_without_its_tokenizer(tmp_path):
    checkpoint = checkpoint_of("xlm-roberta", form.CLASSIFIER)
    notes = write_checkpoint(checkpoint, tmp_path / "preset", "keras_hub")
    assert any("KerasHub makes ids of its own" in note for note in notes)
    assert not (tmp_path / "preset" / "tokenizer.json").exists()
    config = json.loads((tmp_path / "preset" / "config.json").read_text())
    assert config["module"] == "keras_hub.src.models.xlm_roberta.xlm_roberta_backbone"
    found = read_checkpoint(tmp_path / "preset")
    assert (found.config.model_type, found.vocabulary, found.ignored) == ("xlm-roberta", None, ())
    features = {"input_ids": np.array([[0, 7, 9, 2]]), "input_mask": np.ones((1, 4))}
    paths = (saved(checkpoint, tmp_path), tmp_path / "preset")
    ours, theirs = (from_pretrained(None, path)(features) for path in paths)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


def saved(checkpoint, folder):
    write_checkpoint(checkpoint, folder / "ours")
    return folder / "ours"


def test_the_files_name_the_classes_of_keras_hub(tmp_path):
    write_checkpoint(checkpoint_of("distilbert", form.MASKED_LM), tmp_path / "preset", "keras_hub")
    files = {path.relative_to(tmp_path / "preset").as_posix() for path in (tmp_path / "preset").rglob("*.*")}
    assert files == {
        "README.md", "config.json", "metadata.json", "model.weights.h5", "preprocessor.json", "task.json",
        "task.weights.h5", "tokenizer.json", "assets/tokenizer/vocabulary.txt",
    }  # fmt: skip
    read = {
        name: json.loads((tmp_path / "preset" / f"{name}.json").read_text()) for name in ("config", "task", "tokenizer")
    }
    assert read["config"]["module"] == "keras_hub.src.models.distil_bert.distil_bert_backbone"
    assert read["config"]["registered_name"] == "keras_hub>DistilBertBackbone"
    assert read["config"]["config"] == {
        "vocabulary_size": len(word_pieces()), "num_layers": 4, "num_heads": 2, "hidden_dim": 8,
        "intermediate_dim": 12, "dropout": 0.1, "max_sequence_length": 14,
    }  # fmt: skip
    assert read["task"]["class_name"] == "DistilBertMaskedLM"
    assert read["task"]["config"]["preprocessor"]["class_name"] == "DistilBertMaskedLMPreprocessor"
    assert read["tokenizer"]["config"] == {"vocabulary": None, "lowercase": True, "strip_accents": True}


def test_weights_have_the_names_and_shapes_of_keras_hub(tmp_path):
    checkpoint = random_checkpoint(form.CLASSIFIER, labels=("no", "yes", "maybe"))
    write_checkpoint(checkpoint, tmp_path / "ours", "keras_hub")
    write_preset(tmp_path / "theirs", checkpoint, "BertTextClassifier")
    for file in ("model.weights.h5", "task.weights.h5"):
        ours, theirs = (read_keras_weights(tmp_path / side / file) for side in ("ours", "theirs"))
        theirs.pop("optimizer/vars/0", None)
        assert {name: tensor.shape for name, tensor in ours.items()} == {
            name: tensor.shape for name, tensor in theirs.items()
        }
        assert all(np.array_equal(tensor.read(), theirs[name].read()) for name, tensor in ours.items())


def test_what_a_preset_cannot_hold_is_said(tmp_path):
    checkpoint = random_checkpoint(form.NEXT_SENTENCE, with_pooler=False, config=CONFIG.replace(hidden_act="gelu_erf"))
    assert write_checkpoint(checkpoint, tmp_path / "preset", "keras_hub") == [
        "KerasHub has the tanh approximation of GELU only; its outputs differ slightly",
        "there is no trained pooler: KerasHub's pooled_output is 0",
        "left out, because the keras_hub format cannot hold it: next_sentence_head/bias, next_sentence_head/kernel",
    ]
    assert not any(name.startswith(form.POOLER) for name in read_checkpoint(tmp_path / "preset").tensors)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_norm_eps": 1e-6}, r"BertBackbone cannot compute this model: layer_norm_eps=1e-06 \(there: 1e-12\)"),
        ({"hidden_act": "relu"}, r"hidden_act=relu \(there: gelu\)"),
        ({"pooler_act": "relu"}, r"pooler_act=relu \(there: tanh\)"),
    ],
)
def test_what_keras_hub_would_compute_otherwise_is_refused(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        write_checkpoint(random_checkpoint(config=CONFIG.replace(**changes)), tmp_path / "preset", "keras_hub")
    assert not (tmp_path / "preset").exists()


def test_families_and_tokenizers_that_keras_hub_lacks_are_refused(tmp_path):
    config = config_of("modernbert", vocab_size=10, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
    with pytest.raises(InputError, match="KerasHub has no model of the family modernbert, only of: bert, roberta, .*"):
        write_checkpoint(random_checkpoint(config=config, vocabulary=None), tmp_path / "preset", "keras_hub")
    checkpoint = checkpoint_of("roberta", vocab_size=len(word_pieces())).replace(vocabulary=word_pieces())
    with pytest.raises(
        InputError, match="takes a plain BytePairTokenizer with the special tokens <s>, .* a Vocabulary"
    ):
        write_checkpoint(checkpoint, tmp_path / "preset", "keras_hub")


def change(file, **changes):
    """Changes arguments in an object as Keras serialises it."""
    values = json.loads(file.read_text())
    values["config"] |= changes
    file.write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("activation", "outputs", "problem_type"),
    [
        (None, 3, "classification"),
        ("softmax", 3, "classification"),
        ("sigmoid", 3, "multi_label"),
        ({"module": "builtins", "class_name": "function", "config": "sigmoid"}, 1, "multi_label"),
        ("linear", 1, "regression"),
    ],
)
def test_the_activation_of_a_classifier_says_its_problem_type(activation, outputs, problem_type, tmp_path):
    labels = tuple(f"LABEL_{number}" for number in range(outputs))
    write_checkpoint(random_checkpoint(form.CLASSIFIER, labels=labels), tmp_path / "preset", "keras_hub")
    change(tmp_path / "preset" / "task.json", activation=activation)
    assert read_checkpoint(tmp_path / "preset").problem_type == problem_type
    model = from_pretrained(None, tmp_path / "preset")
    assert (model.problem_type, model.labels) == (problem_type, labels)
    model.save_pretrained(tmp_path / "again", format="keras_hub")
    assert read_checkpoint(tmp_path / "again").problem_type == problem_type


@pytest.mark.parametrize(("pooling", "normalize"), [("mean", True), ("cls", False)])
def test_a_text_embedder_is_a_sentence_encoder(pooling, normalize, tmp_path):
    write_checkpoint(random_checkpoint(), tmp_path / "plain", "huggingface")
    settings = {"pooling": [pooling], "normalize": normalize, "max_seq_length": 6}
    model = SentenceEncoder.from_pretrained(tmp_path / "plain", **settings)
    model.save_pretrained(tmp_path / "preset", format="keras_hub")
    task = json.loads((tmp_path / "preset" / "task.json").read_text())
    assert (task["class_name"], task["config"]["pooling_mode"]) == ("BertTextEmbedder", pooling)
    assert task["config"]["preprocessor"]["config"]["sequence_length"] == 6
    loaded = from_pretrained(None, tmp_path / "preset")
    assert {name: loaded.get_config()[name] for name in settings} == settings
    np.testing.assert_array_equal(loaded.encode(["the fox"]), model.encode(["the fox"]))


def test_vectors_that_keras_hub_cannot_compute_are_said(tmp_path, capsys):
    write_checkpoint(random_checkpoint(), tmp_path / "plain", "huggingface")
    model = SentenceEncoder.from_pretrained(tmp_path / "plain", pooling=["mean", "cls"])
    model.save_pretrained(tmp_path / "preset", format="keras_hub")
    assert "KerasHub cannot compute the vectors of texts of this model" in capsys.readouterr().out


def test_the_settings_of_a_word_piece_are_read_and_written_back(tmp_path):
    write_checkpoint(random_checkpoint(), tmp_path / "preset", "keras_hub")
    change(tmp_path / "preset" / "tokenizer.json", strip_accents=False, split_on_cjk=False)
    checkpoint = read_checkpoint(tmp_path / "preset")
    vocabulary = checkpoint.vocabulary
    assert (vocabulary.strip_accents, vocabulary.tokenize_chinese_chars) == (False, False)
    write_checkpoint(checkpoint, tmp_path / "again", "keras_hub")
    assert read_checkpoint(tmp_path / "again").vocabulary == vocabulary
    assert "google-research/bert reads vocab.txt only" in write_checkpoint(checkpoint, tmp_path / "google", "google")[0]


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("task.json", {"activation": "relu"}, "activation is 'relu'. Supported: linear, softmax, sigmoid"),
        ("task.json", {"temperature": 2}, "'temperature'=2"),
        ("config.json", {"rotary": True}, "'rotary'=True"),
        ("tokenizer.json", {"special_tokens_in_strings": True}, "special_tokens_in_strings is True"),
        ("tokenizer.json", {"suffix_indicator": "@@"}, "suffix_indicator is '@@'"),
    ],
)
def test_settings_that_would_change_the_results_are_refused(file, changes, message, tmp_path):
    write_checkpoint(random_checkpoint(form.CLASSIFIER, labels=("a", "b")), tmp_path / "preset", "keras_hub")
    change(tmp_path / "preset" / file, **changes)
    with pytest.raises(InputError, match=message):
        read_checkpoint(tmp_path / "preset")


def test_keras_hub_itself_computes_the_same(tmp_path):
    path = os.environ.get("KERAS_BERT_KERAS_HUB")
    if not path:
        pytest.skip("KERAS_BERT_KERAS_HUB does not name a folder with keras_hub")
    mask = (np.arange(9) < np.array([[9], [4], [7]])).astype("int32")
    features = {
        "input_ids": np.random.default_rng(0).integers(5, 11, mask.shape).astype("int32"),
        "input_mask": mask,
        "segment_ids": (np.arange(9) > 2).astype("int32") * mask,
        "masked_lm_positions": np.array([[1, 2], [0, 3], [4, 5]], "int32"),
    }
    np.savez(tmp_path / "features.npz", **features)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    checkpoints = {}
    for family in SHAPES:
        names = () if family == "electra" else ("classifier", "masked_lm") if family == "roberta" else ("classifier",)
        for name in ("encoder", *names):
            checkpoint = checkpoint_of(family, *([HUB_HEADS[name]] if name in HUB_HEADS else []))
            checkpoints[f"{family}_{name}"] = checkpoint
            write_checkpoint(checkpoint, tmp_path / f"{family}_{name}", "keras_hub")
    run_script(sys.executable, ["open_presets", tmp_path], PYTHONPATH=path)
    inputs = {name: value for name, value in features.items() if name != "masked_lm_positions"}
    for name, checkpoint in checkpoints.items():
        model, theirs = (
            from_pretrained(None, saved(checkpoint, tmp_path / "ours" / name)),
            np.load(f"{tmp_path / name}.npz"),
        )
        outputs = dict(getattr(model, "encoder", model)(inputs))
        if model is not getattr(model, "encoder", model):
            answer = model(features if "masked_lm" in name else inputs)
            outputs |= answer if "masked_lm" in name else {"logits": answer}
        print(name)
        assert_close({key: outputs[key] for key in theirs.files}, theirs, features)
        tokenizer = python_tokenizer(checkpoint.vocabulary, checkpoint.config.do_lower_case)
        ids = json.loads((tmp_path / name / "ids.json").read_text())
        assert ids == [list(tokenizer.encode(text)) for text in TEXTS], name
