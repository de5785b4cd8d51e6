"""The families of transformers (torch), read from their folders, compute the same.

All cases run with KERAS_BERT_PARITY_PYTHON, see conftest.py. Otherwise some run with models that transformers 5.23
on torch 2.13 wrote. This records them again:

    KERAS_BERT_PARITY_PYTHON=/path/to/python python tests/parity/test_families_parity.py
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np
import pytest

from keras_bert.checkpoints.conversion import convert_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.checkpoints.safetensors_file import read_safetensors
from keras_bert.models.encoder_base import Encoder

SCRIPT = pathlib.Path(__file__).with_name("transformers_families.py")
SHAPE = {
    "vocab_size": 61,
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 20,
}
WITHOUT_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
DISTIL = {"vocab_size": 61, "n_layers": 3, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 20}
# Rows have up to 9 tokens, so most tokens do not see the whole row in layers with local attention.
MODERN = {**SHAPE, "local_attention": 4, "pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2}
MODERN |= {"bos_token_id": 1, "eos_token_id": 2}
MOBILE = {**SHAPE, "embedding_size": 12, "intra_bottleneck_size": 8}
DEBERTA = {**SHAPE, "relative_attention": True, "pos_att_type": "p2c|c2p", "position_biased_input": False}
BIASES = {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True}
GTE = {**SHAPE, "pad_token_id": 1}
EURO = {**SHAPE, **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "mask_token_id"), 1)}
GEMMA = {**SHAPE, "use_bidirectional_attention": True, "num_key_value_heads": 1, "head_dim": 10, "pad_token_id": 0}
GEMMA |= {"sliding_window": 4, "query_pre_attn_scalar": 7}
XLNET = {"vocab_size": 61, "d_model": 16, "n_layer": 3, "n_head": 2, "d_inner": 32}


CONFIGS = {
    "XLNet": [
        XLNET,
        {**XLNET, "ff_activation": "gelu_new", "n_head": 4},
        {**XLNET, "ff_activation": "relu", "clamp_len": 3, "d_model": 24},
    ],
    "Bert": [
        {**SHAPE, "tie_word_embeddings": False},
        {**SHAPE, "num_attention_heads": 4, "hidden_act": "gelu_new"},
    ],
    # The masked-LM heads of RoBERTa and ELECTRA use the exact GELU for every hidden_act.
    "Roberta": [SHAPE, {**SHAPE, "layer_norm_eps": 1e-5, "type_vocab_size": 1}],
    "XLMRoberta": [{**SHAPE, "pad_token_id": 1, "num_attention_heads": 4, "hidden_act": "gelu_new"}],
    "Camembert": [{**SHAPE, "pad_token_id": 1, "hidden_size": 24, "hidden_act": "relu"}],
    # With distances of all buckets.
    "MPNet": [{**SHAPE, "hidden_size": 24, "max_position_embeddings": 134}],
    # As v2, with the convolution. Rows have distances of all buckets.
    "DebertaV2": [
        {**DEBERTA, "share_att_key": True, "position_buckets": 8, "conv_kernel_size": 3, "conv_act": "gelu"},
    ],
    "Albert": [
        {**SHAPE, "embedding_size": 8},
        {**SHAPE, "embedding_size": 16, "num_hidden_groups": 2},
        {**SHAPE, "embedding_size": 8, "num_hidden_groups": 2, "inner_group_num": 2},
    ],
    "DistilBert": [{**DISTIL, "dim": 16}],
    "Electra": [{**SHAPE, "embedding_size": 8}, {**SHAPE, "embedding_size": 16}],
    "Longformer": [
        {**SHAPE, "attention_window": 4},
        {**SHAPE, "attention_window": [8, 4, 4, 8], "type_vocab_size": 1},
        {**SHAPE, "attention_window": 4, "hidden_act": "relu"},
        {**SHAPE, "attention_window": 8},
    ],
    # Rows of more than (5 + 2 num_random_blocks) block_size tokens have sparse attention.
    "BigBird": [
        {**SHAPE, **WITHOUT_DROPOUT, "block_size": 2, "num_random_blocks": 1},
        {**SHAPE, **WITHOUT_DROPOUT, "block_size": 2, "num_random_blocks": 1, "num_attention_heads": 4},
    ],
    # transformers has LayerNorms with the default of torch, 1e-5, beside those with layer_norm_eps.
    "MobileBert": [
        MOBILE,
        {**MOBILE, "normalization_type": "layer_norm", "layer_norm_eps": 1e-5, "type_vocab_size": 1},
        {
            **MOBILE,
            "use_bottleneck_attention": True,
            "key_query_shared_bottleneck": False,
            "num_feedforward_networks": 2,
            "classifier_activation": False,
        },
        {**MOBILE, "num_feedforward_networks": 1, "hidden_act": "gelu", "tie_word_embeddings": False},
    ],
    "NomicBert": [{**SHAPE, "hidden_size": 24, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}}],
    "Gte": [{**GTE, "type_vocab_size": 2, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}}],
    "JinaEmbeddingsV3": [{**GTE, "layer_norm_eps": 1e-12, "num_attention_heads": 4, "hidden_act": "relu"}],
    "EuroBert": [
        {**EURO, "num_key_value_heads": 1, "classifier_pooling": "mean", "attention_bias": True, "mlp_bias": True},
        {**EURO, "num_attention_heads": 4, "num_key_value_heads": 2, "classifier_pooling": "bos", "head_dim": 6},
    ],
    "Gemma3Text": [
        {**GEMMA, "num_attention_heads": 4, "num_key_value_heads": 2, "attention_bias": True, "sliding_window": 8},
    ],
    "ModernBert": [
        MODERN,
        {**MODERN, "classifier_pooling": "mean", "layer_types": ["full_attention", "sliding_attention"] * 2},
        {**MODERN, **BIASES, "local_attention": 6, "hidden_activation": "gelu_new", "classifier_activation": "relu"},
    ],
}


OPTIONS = {
    "Longformer": [
        {"num_global": 0},
        {"num_global": 1, "lengths": [13, 6, 4]},
        {"num_global": 7},
        {"num_global": None, "lengths": [9, 6, 5]},
    ],
    "Bert": [{}, {"left": True}],
    "MPNet": [{"left": True, "lengths": [132, 60, 3]}],
    **dict.fromkeys(
        ("XLMRoberta", "Camembert", "NomicBert", "Gte", "JinaEmbeddingsV3", "Gemma3Text"), [{"left": True}]
    ),
    "EuroBert": [{}, {"left": True}],
    "DebertaV2": [{"left": True, "lengths": [19, 6, 4]}],
    "BigBird": [{"train": True}, {"train": True, "lengths": [19, 20, 19]}],
}


HEADS = (
    "Model",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)
CLASS_NAMES = {
    "XLNetForMaskedLM": "XLNetLMHeadModel",
    "XLNetForQuestionAnswering": "XLNetForQuestionAnsweringSimple",
}
# The heads of families that have fewer in transformers.
HEADS_OF = dict.fromkeys(("NomicBert", "Gte", "EuroBert"), HEADS[:4]) | {"JinaEmbeddingsV3": HEADS[:5]}
HEADS_OF["Gemma3Text"] = HEADS[:1]
CASES = [
    (family, number, head)
    for family in CONFIGS
    for number in range(len(CONFIGS[family]))
    for head in HEADS_OF.get(family, HEADS)
]
# transformers selects the global tokens of a Longformer for these tasks only.
WITHOUT_SELECTION = ("Model", "ForMaskedLM", "ForTokenClassification")
CASES = [case for case in CASES if case[:2] != ("Longformer", 3) or case[2] not in WITHOUT_SELECTION]
# Both heads of pre-training: masked tokens and the order of sentences or the next sentence.
BOTH_HEADS = [
    (family, number, "ForPreTraining")
    for family in ("Albert", "MobileBert", "Bert")
    for number in range(len(CONFIGS[family]))
]
CASES += BOTH_HEADS
# The discriminator of ELECTRA.
CASES += [("Electra", number, "ForPreTraining") for number in range(len(CONFIGS["Electra"]))]
BOUNDS = {"float32": 1e-5, "float64": 1e-6}
# transformers computes RMSNorm in float32, always.
BOUNDS_OF = {"EuroBert": {"float32": 2e-5, "float64": 1e-5}, "Gemma3Text": {"float32": 5e-5, "float64": 1e-5}}


# Recorded cases: of the families and heads that have no other recorded outputs.
RECORDED = [(*case, "ForSequenceClassification") for case in (("Roberta", 0), ("DistilBert", 0), ("MobileBert", 2))]
RECORDED += [("Longformer", 1, "ForSequenceClassification"), ("BigBird", 1, "ForSequenceClassification")]
RECORDED += [("MobileBert", 0, "ForMaskedLM"), ("DistilBert", 0, "ForMaskedLM"), ("XLNet", 0, "ForMaskedLM")]
RECORDED += [("Albert", 1, "ForPreTraining"), ("Electra", 0, "ForPreTraining")]
RECORDED += [(*case, "ForSequenceClassification") for case in (("Albert", 2), ("Electra", 1), ("XLNet", 1))]
RECORDED += [("Bert", 1, "ForPreTraining"), ("Roberta", 1, "ForMaskedLM"), ("Roberta", 0, "ForMultipleChoice")]
RECORDED += [("Electra", 0, "ForMaskedLM"), ("ModernBert", 0, "ForMaskedLM"), ("ModernBert", 0, "ForMultipleChoice")]
RECORDED += [("ModernBert", 1, "ForSequenceClassification"), ("ModernBert", 1, "ForQuestionAnswering")]
RECORDED += [("ModernBert", 2, "ForTokenClassification")]
ARCHIVE = pathlib.Path(__file__).parent.parent / "family_golden" / "transformers.zip"


def write_models(python, cases, folder):
    """Lets one process write models of transformers and their outputs."""
    jobs = [
        (
            CLASS_NAMES.get(f"{family}{head}", f"{family}{head}"),
            CONFIGS[family][number],
            str(folder / f"{family}{number}{head}"),
            OPTIONS.get(family, [{}] * number + [{}])[number],
        )
        for family, number, head in cases
    ]
    (folder / "jobs.json").write_text(json.dumps(jobs))
    command = [python, str(SCRIPT), str(folder / "jobs.json")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-3000:]
    (folder / "jobs.json").unlink()


@pytest.fixture(scope="module")
def their_models(tmp_path_factory):
    """Returns a folder with models of transformers and their outputs."""
    folder = tmp_path_factory.mktemp("theirs")
    if python := os.environ.get("KERAS_BERT_PARITY_PYTHON"):
        write_models(python, CASES, folder)
    else:
        shutil.unpack_archive(ARCHIVE, folder)
    return folder


def logits_of(outputs, family, head):
    """Returns the outputs of our model under the names of transformers."""
    if head == "ForQuestionAnswering":
        return {"start_logits": outputs["start_logits"], "end_logits": outputs["end_logits"]}
    if head == "ForPreTraining" and isinstance(outputs, dict):
        sentence = "sop_logits" if family == "Albert" else "seq_relationship_logits"
        return {"prediction_logits": outputs["masked_lm_logits"], sentence: outputs["next_sentence_logits"]}
    return {"logits": outputs["masked_lm_logits"] if head == "ForMaskedLM" else outputs}


@pytest.mark.parametrize(("family", "number", "head"), CASES)
def test_folders_of_transformers_compute_the_same_and_come_back_unchanged(their_models, tmp_path, family, number, head):
    folder = their_models / f"{family}{number}{head}"
    if not folder.exists():
        pytest.skip("KERAS_BERT_PARITY_PYTHON does not name a Python with torch and transformers")
    theirs = np.load(folder / "outputs.npz")
    names = ("input_ids", "input_mask", "segment_ids", "global_mask", "masked_lm_positions")
    names = [name for name in names if name in theirs]
    features = {name: theirs[name].astype("int32") for name in names}
    real = theirs["input_mask"]
    for dtype, tolerance in BOUNDS_OF.get(family, BOUNDS).items():
        if f"{dtype}:hidden_states" not in theirs:
            continue
        # If transformers selects the global tokens for a task, an encoder alone has others.
        selects = OPTIONS.get(family, [{}] * 4)[number].get("num_global", 0) is None
        is_encoder = head == "Model" or (family, head) == ("BigBird", "ForQuestionAnswering")
        model = from_pretrained(Encoder if is_encoder else None, folder, dtype=dtype)
        encoder = model if is_encoder else model.encoder
        encoder.output_hidden_states = True
        hidden = theirs[f"{dtype}:hidden_states"]
        states = [] if selects else encoder(features)["hidden_states"]
        for ours, other in zip(states, hidden if states else [], strict=True):
            np.testing.assert_allclose(np.asarray(ours)[real], other.reshape(ours.shape)[real], rtol=0, atol=tolerance)
        if is_encoder:
            continue
        encoder.output_hidden_states = False
        batch = dict(features)
        if head == "ForMaskedLM" or (family, number, head) in BOTH_HEADS:
            batch.setdefault("masked_lm_positions", np.tile(np.arange(real.shape[1], dtype="int32"), (3, 1)))
        if head == "ForMultipleChoice":
            batch = {name: values[None] for name, values in batch.items()}
        for name, ours in logits_of(model(batch), family, head).items():
            ours, other = np.asarray(ours), theirs[f"{dtype}:{name}"]
            where = real if ours.ndim > 1 and ours.shape[:2] == real.shape else ...
            np.testing.assert_allclose(ours[where], other[where], rtol=0, atol=tolerance)

    if (family, head) == ("BigBird", "ForQuestionAnswering"):
        return  # its head has more layers than ours
    from_pretrained(Encoder if head == "Model" else None, folder).save_pretrained(tmp_path / "ours")
    convert_checkpoint(tmp_path / "ours", tmp_path / "back", "huggingface")
    configs = [json.loads((path / "config.json").read_text()) for path in (folder, tmp_path / "back")]
    assert configs[0]["architectures"] == configs[1]["architectures"]
    before, after = (read_safetensors(str(path / "model.safetensors")) for path in (folder, tmp_path / "back"))
    # The classifier of a BigBird has a pooler that it does not use.
    unused = {"bert.pooler.weight", "bert.pooler.bias"} if "classifier.dense.weight" in before else set()
    # That of XLNet is in all of their models, but belongs to the head that predicts tokens.
    unused |= {name for name in before if name.endswith("mask_emb") and "lm_loss.bias" not in before}
    assert set(before) - unused == set(after)
    if (family, number) in (("MobileBert", 3), ("Bert", 0)):
        unused.add("cls.predictions.bias")  # the decoder that is not tied has its own
    for name, tensor in before.items():
        assert name in unused or tensor.read().tobytes() == after[name].read().tobytes(), name


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        write_models(os.environ["KERAS_BERT_PARITY_PYTHON"], RECORDED, pathlib.Path(temporary))
        shutil.make_archive(str(ARCHIVE.with_suffix("")), "zip", temporary)
