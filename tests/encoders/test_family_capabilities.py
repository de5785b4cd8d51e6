"""The capabilities of the families: the table of docs/families.md, and what a family may lack.

Tasks and their exports: tests/test_scenarios.py. Pre-training: tests/tasks/pretraining. Two devices:
tests/models/test_distributed_model.py. 8-bit exports: tests/serving. JAX: tests/test_jax_backend.py.
`python tests/encoders/test_family_capabilities.py` prints the table.
"""

import dataclasses
import re

import keras
import numpy as np
import pytest
from encoder_contract import inputs_of
from places import DOCS
from tiny_families import VOCABULARIES, config, fewest_layers

from keras_bert import InputError, SequenceClassifier, enable_lora, registry
from keras_bert.models.encoder_base import PACKING, UNPADDING, encoder_class, make_encoder
from keras_bert.optimization import AdamW

PAGE = DOCS / "families.md"
FAMILIES = {"roberta": "RoBERTa", "albert": "ALBERT", "distilbert": "DistilBERT", "electra": "ELECTRA"}
FAMILIES |= {"mobilebert": "MobileBERT", "modernbert": "ModernBERT", "xlnet": "XLNet"}
FAMILIES |= {"longformer": "Longformer", "big_bird": "BigBird"}
FAMILIES |= {"xlm-roberta": "XLM-RoBERTa", "camembert": "CamemBERT", "mpnet": "MPNet", "deberta-v2": "DeBERTa"}
FAMILIES |= {"nomic_bert": "NomicBERT", "gte": "GTE", "jina_embeddings_v3": "jina v3", "eurobert": "EuroBERT"}
FAMILIES |= {"gemma3_text": "Gemma", "neobert": "NeoBERT"}
LABELS = np.array([0, 1, 0, 1], "int32")


def new_classifier(family, **arguments):
    keras.utils.set_random_seed(5)
    without_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    small = config(family, **without_dropout, **fewest_layers(family))
    model = SequenceClassifier(small, labels=["fox", "dog"], **arguments)
    model.vocabulary = VOCABULARIES[family]
    return model


def batch_of(family):
    batch = inputs_of([[1] * 8, [1] * 5 + [0] * 3, [1] * 2 + [0] * 6, [1] * 8], config(family).vocab_size)
    if config(family).type_vocab_size < 2:
        del batch["segment_ids"]
    return batch


# (family, capability) -> what the table says where it does not say yes.
PACKED = "packed rows, no padding"
WITHOUT = {(family, PACKED): "no: blocks and windows count columns" for family in ("longformer", "big_bird")}
WITHOUT |= {(family, "LiteRT export"): "no: it lacks an operation" for family in ("longformer", "big_bird")}
WITHOUT |= {(family, "ONNX export"): "no: its attention is not written" for family in ("longformer", "big_bird")}
WITHOUT[("mobilebert", "ONNX export")] = "no: its layers are not written"
WITHOUT[("xlnet", "ONNX export")] = "no: its attention is not written"


CAPABILITIES = (
    "six tasks from text, and their exports",
    PACKED,
    "pre-training",
    "two devices = one",
    "bfloat16",
    "XLA",
)
CAPABILITIES += ("LoRA", "8-bit export", "LiteRT export", "ONNX export", "the core on JAX")
# These are computed as another family.
ALIKE = {"xlm-roberta": "roberta", "camembert": "roberta"}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_takes_packed_rows_or_refuses_them(family):
    """test_families.py compares their vectors with those of single and of padded rows."""
    encoder = make_encoder(config(family))
    if (family, PACKED) not in WITHOUT:
        assert {PACKING, UNPADDING} <= set(encoder.supports)
        return
    assert not {PACKING, UNPADDING} & set(encoder.supports)
    with pytest.raises(InputError, match=f"{family} cannot take packed rows"):
        encoder(batch_of(family) | {"cls_positions": np.array([[0], [0], [0], [0]])})


def trained(family, compiled, **arguments):
    """Returns a classifier after five steps, and the losses."""
    model = new_classifier(family, **arguments)
    model.compile(optimizer=AdamW(1e-3), **compiled)
    losses = model.fit(batch_of(family), LABELS, batch_size=4, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    return model, losses


@pytest.mark.slow  # test_block_runner.py compiles a BERT, and test_layers.py computes each layer in 16 bits
@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in ALIKE])
def test_a_family_trains_alike_with_xla_and_nearly_so_in_bfloat16(family):
    eagerly = {"run_eagerly": True, "jit_compile": False}
    (plain, expected), (compiled, losses) = trained(family, eagerly), trained(family, {"jit_compile": True})
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for one, other in zip(compiled.weights, plain.weights, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=1e-4)
    narrow, losses = trained(family, eagerly, dtype="mixed_bfloat16")
    assert narrow.encoder.blocks_in_order()[0].compute_dtype == "bfloat16"
    np.testing.assert_allclose(losses, expected, atol=0.05)


def test_the_low_rank_matrices_of_a_block_that_all_layers_share_are_merged(tmp_path):
    model, batch = new_classifier("albert"), batch_of("albert")
    frozen = [model.encoder.embeddings, *model.encoder.blocks_in_order()]
    before = [(weight, np.asarray(weight)) for part in frozen for weight in part.weights]
    enable_lora(model, rank=2)
    model.compile(optimizer=AdamW(1e-2), run_eagerly=True, jit_compile=False)
    model.fit(batch, LABELS, batch_size=4, epochs=3, verbose=0)
    for weight, expected in before:
        np.testing.assert_array_equal(np.asarray(weight), expected)
    model.save_pretrained(tmp_path / "merged")
    found = np.asarray(SequenceClassifier.from_pretrained(tmp_path / "merged")(batch))
    np.testing.assert_allclose(found, model(batch), atol=1e-5)
    assert np.abs(found - np.asarray(new_classifier("albert")(batch))).max() > 1e-2


@pytest.mark.parametrize("family", ALIKE)
def test_a_family_is_computed_as_another(family):
    one, other = registry.family(family), registry.family(ALIKE[family])
    names = {"defaults", "sizes", "tokenizer", "hugging_face", "keras_hub"}
    fields = [field.name for field in dataclasses.fields(one) if field.name not in names]
    assert [getattr(one, name) for name in fields] == [getattr(other, name) for name in fields]
    assert {**one.defaults, "vocab_size": None} == {**other.defaults, "vocab_size": None}
    assert encoder_class(config(family)) is encoder_class(config(ALIKE[family]))


def table() -> list[str]:
    lines = [f"| | {' | '.join(FAMILIES.values())} |", "|---" * (len(FAMILIES) + 1) + "|"]
    return lines + [
        f"| {name} | {' | '.join(WITHOUT.get((family, name), 'yes') for family in FAMILIES)} |" for name in CAPABILITIES
    ]


def test_the_page_has_the_table():
    [shown] = re.findall(r"<!-- capabilities -->\n\n(.*?)\n\n<!-- end -->", PAGE.read_text("utf-8"), re.S)
    assert shown.split("\n") == table()


if __name__ == "__main__":
    print("\n".join(table()))
