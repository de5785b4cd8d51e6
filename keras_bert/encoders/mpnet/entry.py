"""MPNet. Reference: Song et al., 2020, arXiv 2004.09297; microsoft/MPNet; transformers, `models/mpnet/`."""

from collections.abc import Mapping

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.family_formats import HuggingFace
from keras_bert.checkpoints.weight_list import Weight, blocks, embeddings, masked_lm, pooler, projection
from keras_bert.config import BertConfig
from keras_bert.encoders.roberta import DEFAULTS, LM_HEAD
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import Family, size

# The rows of the table of distances. transformers ignores the key of its config, and so must have this value.
NUM_BUCKETS = 32
# transformers counts positions from this id, whatever its config says.
_PAD_ID = 1
_PARTS = (
    "attention.attn.q attention.attn.k attention.attn.v attention.attn.o attention.LayerNorm "
    "intermediate.dense output.dense output.LayerNorm"
)


def weights(config: BertConfig) -> list[Weight]:
    """Returns the weights of an MPNet."""
    table = (NUM_BUCKETS, config.num_attention_heads)
    return [
        *embeddings(config, "mpnet"),
        *projection(config),
        Weight("encoder/distance_bias/table", table, "mpnet.encoder.relative_attention_bias.weight"),
        *blocks(config, "mpnet.encoder.layer.*", _PARTS),
        *pooler(config, "mpnet.pooler.dense"),
        *masked_lm(config, LM_HEAD),
    ]


def _to_theirs(values: Mapping, checkpoint: form.BertCheckpoint) -> dict:
    offset = checkpoint.config.position_offset
    if (values["pad_token_id"], offset) != (_PAD_ID, _PAD_ID + 1):
        raise InputError(
            f"{checkpoint.path}: transformers' MPNet pads with token {_PAD_ID} and counts positions from row "
            f"{_PAD_ID + 1}. Received: token {values['pad_token_id']} and row {offset}. Write it with "
            "format='keras_bert'."
        )
    kept = {name: value for name, value in values.items() if name not in ("type_vocab_size", "position_embedding_type")}
    return {**kept, "relative_attention_num_buckets": NUM_BUCKETS}


FAMILY = Family(
    defaults={**DEFAULTS, "vocab_size": 30527, "type_vocab_size": 0, "do_lower_case": True},
    sizes={"mpnet-base": size(12, 768, 12)},
    pairs_need_segments=False,
    masked_lm_act="gelu_erf",
    encoder="keras_bert.encoders.mpnet.encoder.MPNetEncoder",
    onnx="keras_bert.encoders.mpnet.onnx.OnnxMPNetEncoder",
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(
        classes="MPNet",
        prefix="mpnet",
        poolers={form.CLASSIFIER: ("classifier.dense",)},
        outputs={form.CLASSIFIER: "classifier.out_proj"},
        decoder_bias="lm_head.decoder.bias",
        defaults={"vocab_size": 30527, "max_position_embeddings": 512, "layer_norm_eps": 1e-12},
        more=KnownKeys(fixed={"relative_attention_num_buckets": (NUM_BUCKETS,), "pad_token_id": (_PAD_ID,)}),
        absent=("type_vocab_size",),
        write=_to_theirs,
    ),
)
