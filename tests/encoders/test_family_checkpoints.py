"""Files of BERT's relatives as Google's TensorFlow 1 code writes them. Of transformers: `tests/parity`.

The names are spelt out here, apart from the tables that read them. `family_golden/` has weights under the names of
TensorFlow 1, inputs and outputs, recorded from google-research/albert and google-research/electra.
"""

import json

import numpy as np
import pytest
from encoders.test_families import small_config
from places import TESTS
from tiny_checkpoints import assert_same_tensors, random_checkpoint

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.conversion import convert_checkpoint
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.checkpoints.hugging_face_config import config_from
from keras_bert.checkpoints.tensorflow_checkpoint import write_tensorflow_checkpoint
from keras_bert.config import BertConfig
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError
from keras_bert.tasks.pretraining.replaced_token_detector import ReplacedTokenDetector

GOLDEN = TESTS / "family_golden"
VOCAB, WIDTH, INNER, LAYERS, POSITIONS, NARROW = 30, 8, 16, 4, 12, 4


# transformers.

SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "intermediate_size": INNER,
    "max_position_embeddings": POSITIONS,
}


def test_a_roberta_counts_its_positions_from_the_padding_id():
    values = {**SIZES, "model_type": "roberta", "pad_token_id": 3}
    assert config_from("folder", values).position_offset == 4


@pytest.mark.parametrize("kind", ["SpanBERT", "TinyBERT"])
def test_a_config_without_model_type_is_a_bert(tmp_path, kind):
    # SpanBERT and TinyBERT were published with Google's keys alone; TinyBERT's have more keys, for its training.
    config = BertConfig(**SIZES, hidden_act="gelu_erf")
    checkpoint = random_checkpoint(form.MASKED_LM, config=config, vocabulary=None)
    write_checkpoint(checkpoint, tmp_path / "theirs", "huggingface")
    more = {"cell": {}, "emb_size": WIDTH, "structure": [], "pre_trained": ""} if kind == "TinyBERT" else {}
    values = {**SIZES, "type_vocab_size": 2, "hidden_act": "gelu", "initializer_range": 0.02, **more}
    (tmp_path / "theirs" / "config.json").write_text(json.dumps(values))
    found = read_checkpoint(tmp_path / "theirs")
    assert found.config == config
    assert_same_tensors(found, checkpoint)


@pytest.mark.parametrize(
    ("variant", "changes", "message"),
    [
        ("roberta", {"position_offset": 0}, r"family roberta: position_offset=0 \(fixed there: 1\)"),
        ("electra", {"num_hidden_groups": 2}, r"num_hidden_groups=2 \(fixed there: 4\)"),
        ("albert", {"pooler_act": "relu"}, r"pooler_act=relu \(fixed there: tanh\)"),
        ("albert with two groups of two blocks", {"embedding_projection": False}, "embedding_projection=False"),
        ("electra", {"type_vocab_size": 0}, r"type_vocab_size=0 \(fixed there: 1\)"),
        ("modernbert", {"norm": "rms_norm"}, r"norm=rms_norm \(fixed there: layer_norm\)"),
        ("neobert", {"hidden_act": "gelu_erf"}, r"hidden_act=gelu_erf \(fixed there: silu\)"),
        ("eurobert", {"local_attention": 4, "global_attn_every_n_layers": 2}, "global_attn_every_n_layers=2"),
    ],
)
def test_what_transformers_would_compute_otherwise_is_not_written(tmp_path, variant, changes, message):
    checkpoint = random_checkpoint(config=small_config(variant).replace(**changes), vocabulary=None)
    with pytest.raises(InputError, match=f"transformers cannot compute this model .*{message}"):
        write_checkpoint(checkpoint, tmp_path / "written", "huggingface")
    assert not (tmp_path / "written").exists()


def test_a_shared_table_is_written_twice_where_files_have_two(tmp_path):
    config = small_config("neobert").replace(tie_word_embeddings=True)
    checkpoint = random_checkpoint(form.MASKED_LM, config=config, vocabulary=None)
    write_checkpoint(checkpoint, tmp_path / "theirs", "huggingface")
    found = read_checkpoint(tmp_path / "theirs")
    assert found.config == config.replace(tie_word_embeddings=False)
    table = checkpoint.tensors[form.TOKEN_EMBEDDINGS].read()
    for name in (form.TOKEN_EMBEDDINGS, form.OUTPUT_EMBEDDINGS):
        assert np.array_equal(found.tensors[name].read(), table)


# TensorFlow 1.


def write_golden(folder, family, **changes):
    recorded = np.load(GOLDEN / f"{family}.npz")
    folder.mkdir()
    variables = {name[2:]: StoredTensor.of(recorded[name]) for name in recorded.files if name.startswith("w/")}
    write_tensorflow_checkpoint(str(folder / "model.ckpt-best"), variables)
    sizes = {**SIZES, "vocab_size": 50, "embedding_size": 8, "hidden_size": 16, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 32, "type_vocab_size": 2, "hidden_act": "gelu"}
    if family == "albert":
        sizes |= {"num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 1, "net_structure_type": 0}
    else:
        sizes |= {"num_hidden_layers": 2}
    (folder / f"{family}_config.json").write_text(json.dumps({**sizes, **changes}))
    return recorded


@pytest.mark.parametrize("family", ["albert", "electra"])
def test_files_of_google_compute_what_was_recorded_there(tmp_path, family):
    recorded = write_golden(tmp_path / "google", family)
    features = dict(
        zip(("input_ids", "input_mask", "segment_ids"), map(recorded.get, ("ids", "mask", "seg")), strict=True)
    )
    outputs = BertEncoder.from_pretrained(tmp_path / "google")(features)
    real = recorded["mask"] > 0
    np.testing.assert_allclose(np.asarray(outputs["sequence_output"])[real], recorded["seq"][real], rtol=0, atol=1e-5)
    if family == "albert":
        np.testing.assert_allclose(np.asarray(outputs["pooled_output"]), recorded["pooled"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", ["albert", "electra"])
def test_every_variable_of_google_comes_back_bit_by_bit(tmp_path, family):
    from keras_bert.checkpoints.tensorflow_checkpoint import read_tensorflow_checkpoint

    recorded = write_golden(tmp_path / "google", family)
    convert_checkpoint(tmp_path / "google", tmp_path / "ours", do_lower_case=True)
    convert_checkpoint(tmp_path / "ours", tmp_path / "back", "google")
    assert (tmp_path / "back" / f"{family}_config.json").is_file()
    back = read_tensorflow_checkpoint(str(tmp_path / "back" / "bert_model.ckpt"))
    assert {f"w/{name}" for name in back} == {name for name in recorded.files if name.startswith("w/")}
    for name, tensor in back.items():
        assert tensor.read().tobytes() == recorded[f"w/{name}"].tobytes(), name
    # It is read as the same model: ELECTRA's GELU is exact, even if its config names another.
    found, before = read_checkpoint(tmp_path / "back"), read_checkpoint(tmp_path / "ours")
    assert found.config == before.config
    assert found.config.hidden_act == {"albert": "gelu", "electra": "gelu_erf"}[family]
    assert_same_tensors(found, before)


@pytest.mark.parametrize(
    ("family", "heads"),
    [
        ("albert", (form.MASKED_LM, form.NEXT_SENTENCE)),
        ("albert", (form.CLASSIFIER,)),
        ("electra", (form.MASKED_LM,)),
        ("electra", (form.REPLACED_TOKEN,)),
    ],
)
def test_heads_of_google_keep_their_numbers(tmp_path, family, heads):
    config = small_config(family).replace(embedding_size=8)
    labels = ("no", "yes") if form.CLASSIFIER in heads else None
    checkpoint = random_checkpoint(
        *heads, config=config, vocabulary=None, labels=labels, with_pooler=family == "albert"
    )
    write_checkpoint(checkpoint, tmp_path / "google", "google")
    assert_same_tensors(read_checkpoint(tmp_path / "google"), checkpoint)


def electra_variables(generator):
    """Returns the variables of a released ELECTRA: heads of 64 columns, and a generator beside the discriminator."""
    width, inner = 64, 96
    shapes = {"embeddings/word_embeddings": (20, 32), "embeddings/position_embeddings": (POSITIONS, 32)}
    shapes |= {"embeddings/token_type_embeddings": (2, 32), "embeddings/LayerNorm/beta": (32,)}
    shapes |= {"embeddings/LayerNorm/gamma": (32,), "embeddings_project/kernel": (32, width)}
    shapes["embeddings_project/bias"] = (width,)
    for number in range(2):
        layer = f"encoder/layer_{number}"
        for part in ("attention/self/query", "attention/self/key", "attention/self/value", "attention/output/dense"):
            shapes |= {f"{layer}/{part}/kernel": (width, width), f"{layer}/{part}/bias": (width,)}
        for part in ("attention/output/LayerNorm", "output/LayerNorm"):
            shapes |= {f"{layer}/{part}/beta": (width,), f"{layer}/{part}/gamma": (width,)}
        shapes |= {f"{layer}/intermediate/dense/kernel": (width, inner), f"{layer}/intermediate/dense/bias": (inner,)}
        shapes |= {f"{layer}/output/dense/kernel": (inner, width), f"{layer}/output/dense/bias": (width,)}
    shapes = {f"electra/{name}": shape for name, shape in shapes.items()}
    for name, outputs in (("dense", width), ("dense_1", 1)):
        shapes |= {f"discriminator_predictions/{name}/kernel": (width, outputs)}
        shapes |= {f"discriminator_predictions/{name}/bias": (outputs,)}
    shapes |= {"generator_predictions/dense/kernel": (width, 32), "generator_predictions/dense/bias": (32,)}
    shapes |= {"generator_predictions/LayerNorm/beta": (32,), "generator_predictions/LayerNorm/gamma": (32,)}
    shapes |= {"generator_predictions/output_bias": (20,), "global_step": ()}
    if generator:
        shapes["generator/encoder/layer_0/output/dense/bias"] = (width,)
    draw = np.random.default_rng(0)
    return {name: StoredTensor.of(draw.normal(0, 0.1, shape).astype("float32")) for name, shape in shapes.items()}


@pytest.mark.parametrize("has_generator", [False, True])
def test_an_electra_without_config_is_read_by_its_shapes(tmp_path, has_generator):
    write_tensorflow_checkpoint(str(tmp_path / "electra_small"), electra_variables(has_generator))
    found = read_checkpoint(tmp_path)
    config = found.config
    assert (config.model_type, config.hidden_act, config.pooler_act) == ("electra", "gelu_erf", "gelu_erf")
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (2, 64, 1)
    assert (config.embedding_size, config.intermediate_size, config.type_vocab_size) == (32, 96, 2)
    # If the generator has an encoder of its own, the masked-LM head belongs to that.
    heads = (form.REPLACED_TOKEN,) if has_generator else (form.REPLACED_TOKEN, form.MASKED_LM)
    assert found.heads == heads
    assert any("generator" in name for name in found.ignored) == has_generator
    ids = np.array([[2, 5, 7, 3]])
    logits = ReplacedTokenDetector.from_pretrained(tmp_path)(
        {"input_ids": ids, "input_mask": ids > 0, "segment_ids": 0 * ids}
    )
    assert logits.shape == (1, 4)


def test_an_electra_with_other_heads_needs_its_config(tmp_path):
    write_golden(tmp_path / "google", "electra")
    (tmp_path / "google" / "electra_config.json").unlink()
    with pytest.raises(InputError, match="the hidden size 16 is not divisible by 64, .* Add electra_config.json"):
        read_checkpoint(tmp_path / "google")


def test_google_has_no_place_for_roberta_and_distilbert(tmp_path):
    for family in ("roberta", "distilbert"):
        checkpoint = random_checkpoint(config=small_config(family), vocabulary=None)
        with pytest.raises(InputError, match=f"cannot hold a model of the family {family}.*huggingface"):
            write_checkpoint(checkpoint, tmp_path / family, "google")
