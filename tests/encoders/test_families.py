"""BERT's relatives: sizes, contract, bad input, checkpoints."""

import numpy as np
import pytest
import tensorflow as tf
from encoder_contract import check_encoder
from keras import ops
from numpy_bert import scatter_weights
from tiny_checkpoints import assert_same_tensors, random_checkpoint

from keras_bert import registry
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import part_of
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.checkpoints.model_weights import model_weights
from keras_bert.checkpoints.resizing import with_layers
from keras_bert.checkpoints.weight_list import encoder_shapes, head_shapes
from keras_bert.config import BertConfig
from keras_bert.models.encoder_base import make_encoder
from keras_bert.models.trainable_parts import enable_lora, freeze
from keras_bert.program.errors import InputError
from keras_bert.tasks.masked_lm.model import MaskedLM

SMALL = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 14,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
VARIANTS = {
    "roberta": ("roberta", {}),
    "xlm-roberta": ("xlm-roberta", {}),
    "camembert": ("camembert", {}),
    "mpnet": ("mpnet", {}),
    "deberta-v2": ("deberta-v2", {"position_buckets": 6}),
    "deberta-v2 with a convolution and all tables": (
        "deberta-v2",
        {
            **{"position_buckets": -1, "max_relative_positions": 5, "share_att_key": False, "norm_rel_ebd": "none"},
            **{"position_biased_input": True, "type_vocab_size": 2, "embedding_size": 8},
            **{"conv_kernel_size": 3, "legacy": True},
        },
    ),
    "albert": ("albert", {"embedding_size": 8}),
    "albert with two groups of two blocks": ("albert", {"num_hidden_groups": 2, "inner_group_num": 2}),
    "distilbert": ("distilbert", {}),
    "electra": ("electra", {}),
    "electra with narrow embeddings": ("electra", {"embedding_size": 8}),
    "modernbert": ("modernbert", {"local_attention": 4}),
    "modernbert with biases and means": (
        "modernbert",
        {
            **{"local_attention": 2, "global_attn_every_n_layers": 2, "classifier_pooling": "mean"},
            **dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"), True),
            **dict.fromkeys(("embedding_dropout", "attention_probs_dropout_prob", "mlp_dropout"), 0.1),
        },
    ),
    "nomic_bert": ("nomic_bert", {}),
    "gte": ("gte", {"rope_factor": 2.0, "type_vocab_size": 1}),
    "jina_embeddings_v3": ("jina_embeddings_v3", {}),
    "neobert": ("neobert", {}),
    "eurobert": ("eurobert", {"num_key_value_heads": 1, "head_dim": 6}),
    "gemma3_text": (
        "gemma3_text",
        {
            **{"num_key_value_heads": 1, "head_dim": 6, "query_pre_attn_scalar": 5},
            **{"local_attention": 4, "global_attn_every_n_layers": 2},
        },
    ),
    "mobilebert": ("mobilebert", {"embedding_size": 8, "intra_bottleneck_size": 6}),
    "mobilebert without a pooler": (
        "mobilebert",
        {
            **{"embedding_size": 12, "intra_bottleneck_size": 8, "normalization_type": "layer_norm"},
            **{"use_bottleneck_attention": True, "key_query_shared_bottleneck": False},
            **{"num_feedforward_networks": 1, "classifier_activation": False},
        },
    ),
    "longformer": ("longformer", {"attention_window": [4, 2, 2, 6]}),
    "xlnet": ("xlnet", {}),
    "xlnet with short distances": ("xlnet", {"clamp_len": 2, "hidden_act": "relu"}),
    "big_bird": ("big_bird", {"block_size": 1, "num_random_blocks": 1}),
}

BERTS = {
    "bert": ("bert", {}),
    "bert with narrow embeddings": ("bert", {"embedding_size": 8, "type_vocab_size": 3}),
    "bert with an output table of its own": ("bert", {"tie_word_embeddings": False}),
}

# The variants of a family are slow tests.
SLOW = ("xlm-roberta", "camembert", "jina_embeddings_v3", "nomic_bert")  # RoBERTas, and a GTE without segments
SHORT = [
    name if name in registry.FAMILIES.keys() - SLOW else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS
]
# One of each encoder, and one whose layers share their weights. test_scenarios.py trains the others too.
TRAINED = ["roberta", "albert", "mobilebert", "modernbert", "longformer", "xlnet", "mpnet", "deberta-v2"]


def shallow_config(variant: str) -> BertConfig:
    """Returns the config with the fewest layers that are of all kinds."""
    config = small_config(variant)
    # An ALBERT has groups of layers, and this Longformer a window for each layer.
    return config if config.model_type in ("albert", "longformer") else config.replace(num_hidden_layers=2)


def small_config(variant: str) -> BertConfig:
    family, changes = {**VARIANTS, **BERTS}[variant]
    values = {**registry.family(family).defaults, "embedding_size": None, **SMALL, **changes}
    return BertConfig.from_dict({"model_type": family, **values})


# Counted by transformers 5.23 and 5.24. DistilBERT, ELECTRA and others have no pooler there.
@pytest.mark.parametrize(
    ("size", "count"),
    [
        ("base", 109_482_240),
        ("large", 335_141_888),
        ("roberta-base", 124_645_632),
        ("roberta-large", 355_359_744),
        ("xlm-roberta-base", 278_043_648),
        ("xlm-roberta-large", 559_890_432),
        ("camembert-base", 110_621_952),
        ("mpnet-base", 109_486_464),
        ("deberta-v3-xsmall", 70_682_112),
        ("deberta-v3-small", 141_304_320),
        ("deberta-v3-base", 183_831_552),
        ("deberta-v3-large", 434_012_160),
        ("mdeberta-v3-base", 278_218_752),
        ("deberta-v2-xlarge", 884_593_152),
        ("deberta-v2-xxlarge", 1_564_549_632),
        ("longformer-base", 148_659_456),
        ("longformer-large", 434_600_960),
        ("bigbird-base", 127_468_800),
        ("bigbird-large", 359_123_968),
        ("albert-base", 11_683_584),
        ("albert-large", 17_683_968),
        ("albert-xlarge", 58_724_864),
        ("albert-xxlarge", 222_595_584),
        ("distilbert-base", 66_362_880),
        # The discriminators without their heads (a dense layer and one output).
        ("electra-small", 13_549_057 - (256 * 256 + 256) - (256 + 1)),
        ("electra-base", 109_483_009 - (768 * 768 + 768) - (768 + 1)),
        ("electra-large", 335_142_913 - (1024 * 1024 + 1024) - (1024 + 1)),
        ("mobilebert", 24_844_544 - (512 * 512 + 512)),  # without a pooler, as the published model
        ("modernbert-base", 149_014_272),
        ("modernbert-large", 394_781_696),
        ("mmbert-small", 140_493_696),
        ("mmbert-base", 306_939_648),
        ("nomic-embed-text-v1.5", 136_731_648),
        ("gte-multilingual-base", 305_368_320),
        ("gte-base-en-v1.5", 136_776_192),
        ("gte-large-en-v1.5", 434_139_136),
        ("jina-embeddings-v3", 559_364_096),
        ("eurobert-210m", 211_766_016),
        ("eurobert-610m", 607_874_688),
        ("eurobert-2.1b", 2_107_590_912),
        ("embeddinggemma-300m", 302_863_104),
        # Without the vector with which the stream of predictions begins, which is in our head.
        ("xlnet-base", 116_718_336 - 768),
        ("xlnet-large", 360_268_800 - 1024),
    ],
)
def test_published_sizes_have_their_published_numbers_of_parameters(size, count):
    config = BertConfig.from_size(size, **({"vocab_size": 30522} if size in ("base", "large") else {}))
    without_pooler = ("distilbert", "electra", "modernbert", "xlnet", "deberta-v2", "nomic_bert", "gte", "eurobert")
    has_pooler = config.model_type not in (*without_pooler, "gemma3_text")
    shapes = [shape for name, shape in encoder_shapes(config).items() if has_pooler or part_of(name) != form.POOLER]
    assert sum(int(np.prod(shape)) for shape in shapes) == count


@pytest.mark.parametrize("variant", SHORT)
def test_every_family_keeps_the_contract_of_encoders(variant):
    encoder = make_encoder(shallow_config(variant))
    scatter_weights(encoder)
    check_encoder(encoder)


@pytest.mark.parametrize("variant", [*VARIANTS, *BERTS])
def test_a_family_lists_the_names_and_shapes_of_its_weights(variant):
    config = small_config(variant)
    model = MaskedLM(config)
    listed = encoder_shapes(config) | head_shapes(config, form.MASKED_LM, 0)
    assert {name: tuple(weight.shape) for name, weight in model_weights(model).items()} == listed


@pytest.mark.parametrize("variant", SHORT)
@pytest.mark.parametrize("format", ["keras_bert", "huggingface"])
def test_all_tensors_survive_writing_and_reading(tmp_path, variant, format):
    config = small_config(variant)
    checkpoint = random_checkpoint(form.MASKED_LM, config=config, vocabulary=None, with_pooler=False)
    if format == "huggingface" and form.MASKED_LM in config.family.hugging_face.refused_heads:
        with pytest.raises(InputError, match="has no such head. Write it with format='keras_bert'"):
            write_checkpoint(checkpoint, tmp_path / "written", format)
        checkpoint = random_checkpoint(config=config, vocabulary=None, with_pooler=False)
    write_checkpoint(checkpoint, tmp_path / "written", format)
    read = read_checkpoint(tmp_path / "written", do_lower_case=config.do_lower_case)
    assert read.config == config
    assert_same_tensors(read, checkpoint)


EAGERLY, WITH_RECOMPUTED_LAYERS = {"run_eagerly": True, "jit_compile": False}, {"gradient_checkpointing": True}


@pytest.mark.parametrize("compiled", [EAGERLY, pytest.param(WITH_RECOMPUTED_LAYERS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("variant", TRAINED)
def test_every_encoder_trains(variant, compiled):
    config = shallow_config(variant)
    dropouts = [name for name in config.to_dict() if "dropout" in name and name != "classifier_dropout"]
    # Two updates lower the loss less than dropout can raise it.
    model = MaskedLM(config.replace(**dict.fromkeys(dropouts, 0.0)))
    scatter_weights(model)
    ids = np.arange(2, 34, dtype="int32").reshape(4, 8)
    batch = {"input_ids": ids, "input_mask": ids * 0 + 1, "segment_ids": ids * 0}
    batch |= {"masked_lm_positions": ids[:, :2] * 0 + [1, 3], "masked_lm_ids": ids[:, [1, 3]]}
    batch["masked_lm_weights"] = np.ones((4, 2), "float32")
    model.compile(optimizer="adam", **compiled)
    losses = model.fit(batch, epochs=2, verbose=0, batch_size=4).history["loss"]
    assert losses[1] < losses[0]


def test_lora_goes_to_a_shared_block_once():
    model = MaskedLM(small_config("albert"))
    enable_lora(model, rank=2)
    assert sum(weight.name == "lora_kernel_a" for weight in model.weights) == 4


def test_layers_that_share_weights_with_later_ones_cannot_be_frozen():
    model = MaskedLM(small_config("albert"))
    with pytest.raises(InputError, match="The first 2 of 4 layers share weights with later ones"):
        freeze(model, num_layers=2)
    freeze(model, num_layers=4)
    assert not model.encoder.blocks[0].trainable_weights


def test_single_layers_of_shared_ones_cannot_be_kept():
    checkpoint = random_checkpoint(config=small_config("albert"), vocabulary=None)
    with pytest.raises(InputError, match="keep_layers needs layers that do not share weights"):
        with_layers(checkpoint, [0, 2])


REFUSED = {
    "bert": [
        ({"num_hidden_groups": 3}, "num_hidden_layers must be divisible by num_hidden_groups"),
        ({"position_offset": 14}, "position_offset must be below max_position_embeddings=14"),
        ({"embedding_size": 8, "embedding_projection": False}, "embedding_projection must be true"),
        ({"model_type": "gpt2"}, "Unknown model_type 'gpt2'. Known are: bert, roberta, albert, distilbert, electra, "),
    ],
    "modernbert": [
        ({"local_attention": 5}, "local_attention must be even. Received: 5"),
        ({"hidden_size": 6}, "must be even for rotary positions. Received: 6 / 2 = 3"),
        ({"type_vocab_size": 2}, "ModernBERT needs type_vocab_size=0. Received: 2"),
        ({"num_hidden_groups": 2}, "needs num_hidden_groups=[0-9]+. Received: 2"),
        ({"position_offset": 1}, "needs position_offset=0. Received: 1"),
        ({"num_key_value_heads": 4}, "num_key_value_heads must divide num_attention_heads=2. Received: 4"),
        ({"head_dim": 3}, "head_dim must be even for rotary positions. Received: 3"),
    ],
    "deberta-v2": [
        ({"position_buckets": 1}, "position_buckets must be at least 2, and half of it below .*, 13. Received: 1"),
        ({"position_buckets": 26}, "half of it below the longest distance minus 1, 13. Received: 26"),
        ({"conv_kernel_size": 2}, "conv_kernel_size must be odd, or 0. Received: 2"),
        ({"max_relative_positions": 2_000_000}, "the longest distance may be 1,000,000. Received: 2,000,000"),
        ({"position_offset": 1}, "DeBERTa needs position_offset=0. Received: 1"),
    ],
}


@pytest.mark.parametrize(
    ("family", "change", "message"), [(family, *case) for family, cases in REFUSED.items() for case in cases]
)
def test_values_that_a_family_does_not_have_are_refused(family, change, message):
    with pytest.raises(InputError, match=message):
        small_config(family).replace(**change)


def test_a_row_longer_than_positions_minus_offset_is_refused():
    config = small_config("roberta")
    config.check_sequence_length(12)
    with pytest.raises(InputError, match=r"13 is more than this model's 12 positions .*position_offset=2"):
        config.check_sequence_length(13)


def test_the_file_of_a_bert_has_no_keys_of_its_relatives():
    assert set(BertConfig(vocab_size=9).to_dict()) & {"embedding_size", "model_type", "position_offset"} == set()


def test_kept_layers_of_a_deberta_keep_its_convolution():
    checkpoint = random_checkpoint(config=small_config("deberta-v2 with a convolution and all tables"), vocabulary=None)
    kept = with_layers(checkpoint, [0, 3])
    assert "encoder/layer_0/convolution_kernel" in kept.tensors
    with pytest.raises(InputError, match="must begin with layer 0, which differs from the others"):
        with_layers(checkpoint, [1, 3])


def test_kept_layers_of_a_modernbert_keep_their_attention():
    config = small_config("modernbert").replace(num_hidden_layers=7)
    checkpoint = random_checkpoint(config=config, vocabulary=None)
    kept = with_layers(checkpoint, [0, 1, 5, 6])
    assert kept.config.num_hidden_layers == 4
    assert kept.tensors["encoder/layer_3/attention/qkv/kernel"].shape == (16, 48)
    for keep in ([1, 2], [0, 3], [0, 1, 0]):
        with pytest.raises(InputError, match="must begin with layer 0, .* keep the order of global and local layers"):
            with_layers(checkpoint, keep)


def test_lora_freezes_a_modernbert_except_its_head():
    model = MaskedLM(small_config("modernbert"))
    enable_lora(model, rank=2)
    trained = {weight.path.rpartition("/")[2] for weight in model.encoder.trainable_weights}
    assert trained == {"lora_kernel_a", "lora_kernel_b"}


@pytest.mark.parametrize("variant", ["xlnet", "mpnet", "deberta-v2", "longformer"])
def test_a_model_with_one_head_computes_rows_alike_and_trains_all_its_weights(variant):
    encoder = make_encoder(small_config(variant).replace(num_attention_heads=1))
    scatter_weights(encoder)
    ids = np.random.default_rng(0).integers(5, 40, (3, 9))
    batch = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.arange(9) // 5 + 0 * ids}
    with tf.GradientTape() as tape:
        vectors = encoder(batch, training=True)["sequence_output"]
        loss = ops.sum(vectors * np.random.default_rng(1).normal(size=vectors.shape))
    last = encoder({name: values[-1:] for name, values in batch.items()})["sequence_output"]
    np.testing.assert_allclose(last[0], vectors[-1], atol=1e-4)
    variables = [weight.value for weight in encoder.trainable_weights if "distance" in weight.path]
    assert variables or variant == "longformer"
    assert None not in tape.gradient(loss, variables)
