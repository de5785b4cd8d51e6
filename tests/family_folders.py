"""Small Hugging Face folders of encoder families, with weights drawn from generators that are the same everywhere.

`family_golden/examples.json` has, for a family and a head, the names and shapes of the tensors in the file that
transformers writes, and what transformers on torch computed with them: see parity/record_families.py.
"""

import zlib

import numpy as np

SMALL = dict(num_hidden_layers=3, hidden_size=24, num_attention_heads=4, intermediate_size=60)
MPNET = dict(
    SMALL,
    vocab_size=211,
    max_position_embeddings=42,
    layer_norm_eps=1e-5,
    hidden_act="gelu",
    pad_token_id=1,
    bos_token_id=0,
    eos_token_id=2,
)
ROBERTA = dict(MPNET, type_vocab_size=1)
DEBERTA = dict(
    SMALL,
    model_type="deberta-v2",
    vocab_size=212,
    max_position_embeddings=40,
    layer_norm_eps=1e-7,
    hidden_act="gelu",
    pad_token_id=0,
    relative_attention=True,
    max_relative_positions=-1,
    pos_att_type="p2c|c2p",
    pooler_dropout=0,
    pooler_hidden_act="gelu",
    pooler_hidden_size=24,
)
# as microsoft/deberta-v3-base
DEBERTA_V3 = dict(
    DEBERTA,
    type_vocab_size=0,
    position_biased_input=False,
    share_att_key=True,
    norm_rel_ebd="layer_norm",
    position_buckets=8,
)
ROTARY = dict(SMALL, vocab_size=211, intermediate_size=40, max_position_embeddings=64)
GTE = dict(ROTARY, model_type="gte", hidden_act="gelu", layer_norm_eps=1e-12)
CONFIGS = {
    "xlm-roberta": dict(ROBERTA, model_type="xlm-roberta"),
    "camembert": dict(ROBERTA, model_type="camembert"),
    "mpnet": dict(MPNET, model_type="mpnet", relative_attention_num_buckets=32),
    "deberta-v3": dict(DEBERTA_V3, legacy=False),
    # the other value of every switch
    "deberta-v2": dict(
        DEBERTA,
        type_vocab_size=2,
        position_biased_input=True,
        share_att_key=False,
        norm_rel_ebd="none",
        position_buckets=-1,
        max_relative_positions=12,
        embedding_size=16,
        pooler_hidden_act="tanh",
    ),
    # one kind of positions in the scores
    "deberta-v2-c2p": dict(DEBERTA, type_vocab_size=0, pos_att_type="c2p", position_buckets=8),
    "deberta-v2-p2c": dict(DEBERTA, type_vocab_size=0, pos_att_type="p2c", position_buckets=8),
    # as microsoft/deberta-v2-xlarge, with its convolution beside the first layer
    "deberta-v2-conv": dict(DEBERTA_V3, conv_kernel_size=3, conv_act="gelu", attention_head_size=6),
    "nomic_bert": dict(
        ROTARY,
        model_type="nomic_bert",
        type_vocab_size=2,
        hidden_act="silu",
        layer_norm_eps=1e-12,
        rope_parameters=dict(rope_type="default", rope_theta=1000.0),
        pad_token_id=0,
    ),
    "eurobert": dict(
        ROTARY,
        model_type="eurobert",
        num_key_value_heads=2,
        hidden_act="silu",
        rms_norm_eps=1e-5,
        rope_parameters=dict(rope_type="default", rope_theta=250000.0),
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=1,
        mask_token_id=2,
        classifier_pooling="late",
        tie_word_embeddings=False,
    ),
    "gte": dict(GTE, type_vocab_size=1, rope_parameters=dict(rope_type="default", rope_theta=20000.0), pad_token_id=1),
    "jina_embeddings_v3": dict(
        ROBERTA,
        model_type="jina_embeddings_v3",
        max_position_embeddings=66,
        rope_parameters=dict(rope_type="default", rope_theta=20000.0),
    ),
    # as google/embeddinggemma-300m: window 8 means |i - j| <= 4
    "gemma3_text": dict(
        SMALL,
        model_type="gemma3_text",
        vocab_size=211,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=40,
        num_hidden_layers=4,
        sliding_window=8,
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
        max_position_embeddings=64,
        use_bidirectional_attention=True,
        query_pre_attn_scalar=8,
        rms_norm_eps=1e-6,
        hidden_activation="gelu_pytorch_tanh",
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
    ),
    # as jhu-clsp/mmBERT-base: ModernBERT with one base for both kinds of layers
    "mmbert": dict(
        model_type="modernbert",
        vocab_size=211,
        hidden_size=24,
        intermediate_size=36,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=64,
        local_attention=8,
        global_attn_every_n_layers=3,
        global_rope_theta=160000.0,
        local_rope_theta=160000.0,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
        cls_token_id=1,
        sep_token_id=1,
    ),
}
# The names of transformers' classes: of a family, and what follows for a head.
CLASSES = {
    "xlm-roberta": "XLMRoberta",
    "camembert": "Camembert",
    "mpnet": "MPNet",
    "deberta-v3": "DebertaV2",
    "deberta-v2": "DebertaV2",
    "deberta-v2-c2p": "DebertaV2",
    "deberta-v2-p2c": "DebertaV2",
    "deberta-v2-conv": "DebertaV2",
    "nomic_bert": "NomicBert",
    "eurobert": "EuroBert",
    "gte": "Gte",
    "jina_embeddings_v3": "JinaEmbeddingsV3",
    "gemma3_text": "Gemma3Text",
    "mmbert": "ModernBert",
}
HEADS = {
    "base": "Model",
    "sequence": "ForSequenceClassification",
    "token": "ForTokenClassification",
    "qa": "ForQuestionAnswering",
    "mlm": "ForMaskedLM",
}
# Families whose config has a table of segments with two rows; the others get segment ids 0.
WITH_SEGMENTS = ("deberta-v2", "nomic_bert")


def config_values(family: str, head: str) -> dict:
    """Returns the content of config.json."""
    values = dict(CONFIGS[family], architectures=[CLASSES[family] + HEADS[head]])
    labels = {"sequence": ["red", "green", "blue"], "token": [f"L{number}" for number in range(5)]}.get(head)
    if labels:
        values["id2label"] = {str(number): label for number, label in enumerate(labels)}
        values["label2id"] = {label: number for number, label in enumerate(labels)}
    return values


def weights_of(name: str, shape) -> np.ndarray:
    """Returns the weights of a name, float32: around 1 for scales of norms, else around 0."""
    generator = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
    values = (generator.standard_normal(shape) * 0.1).astype("float32")
    return 1 + values if name.endswith("weight") and len(shape) == 1 else values


def inputs(family: str, is_left: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns ids, mask and segments, each int32 `[4, 21]`; with `is_left` the padding is in front."""
    length = 21
    generator = np.random.RandomState(7)
    values = CONFIGS[family]
    ids = generator.randint(5, min(values["vocab_size"], 200), (4, length)).astype("int32")
    lengths = [length, 2, length // 2, length - 1]
    mask = (np.arange(length)[None] < np.array(lengths)[:, None]).astype("int32")
    halves = np.array([one // 2 for one in lengths])
    segments = (np.arange(length)[None] >= halves[:, None]).astype("int32") * mask
    if family not in WITH_SEGMENTS:
        segments = segments * 0
    arrays = (np.where(mask == 1, ids, values["pad_token_id"]).astype("int32"), mask, segments)
    if is_left:
        return tuple(
            np.stack([np.roll(row, length - one) for row, one in zip(array, lengths, strict=True)]) for array in arrays
        )
    return arrays
