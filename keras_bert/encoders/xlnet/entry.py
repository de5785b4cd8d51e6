"""XLNet. Reference: Yang et al., 2019, arXiv 1906.08237; zihangdai/xlnet; transformers, `models/xlnet/`."""

from collections.abc import Mapping

import numpy as np

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.family_formats import Google, HuggingFace
from keras_bert.checkpoints.name_table import AS_FIRST_ROWS, HEADS_LAST, HEADS_OUT
from keras_bert.checkpoints.weight_list import LAYER, POOLER, Weight, dense, in_layers, layer_norm
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import SENTENCE_PIECE, Family, size

# Their keys -> ours.
_KEYS = {
    "d_model": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "d_inner": "intermediate_size",
    "ff_activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "summary_activation": "pooler_act",
    "longest_row": "max_position_embeddings",  # ours; they have no limit, and refuse the usual key
}
_GOOGLE_KEYS = _KEYS | {"n_token": "vocab_size"}
# Settings of the published models; others would be computed differently.
_FIXED = {
    "attn_type": ("bi",),
    "bi_data": (False,),
    "same_length": (False,),
    "summary_type": ("last",),
    "summary_use_proj": (True,),
    "summary_proj_to_labels": (False,),
}
# Weights of the attention -> their names in transformers; Google's have those too, without a layer.
_ATTENTION = {
    "content_bias": "r_w_bias",
    "distance_bias": "r_r_bias",
    "segment_bias": "r_s_bias",
    "segment_embeddings": "seg_embed",
}
_SCOPE = "model/transformer"


def weights(config: BertConfig) -> list[Weight]:
    """Returns the weights of an XLNet. In Google's files, `_divided` makes a variable for each layer."""
    width, table = config.hidden_size, (config.vocab_size, config.hidden_size)
    mask_embedding = Weight(
        *(form.MASK_EMBEDDING, (width,), "transformer.mask_emb", f"{_SCOPE}/mask_emb/mask_emb"),
        hugging_face_layout=AS_FIRST_ROWS,
        google_layout=AS_FIRST_ROWS,
    )
    return [
        Weight(
            form.TOKEN_EMBEDDINGS, table, "transformer.word_embedding.weight", f"{_SCOPE}/word_embedding/lookup_table"
        ),
        *in_layers(_layer(config), config.num_hidden_layers),
        # The name is misspelt in Google's code.
        *dense(POOLER, width, width, google="model/sequnece_summary/summary"),
        mask_embedding,
        Weight(form.OUTPUT_BIAS, (config.vocab_size,), "lm_loss.bias", "model/lm_loss/bias"),
        Weight(form.OUTPUT_EMBEDDINGS, table, "lm_loss.weight", is_needed=False),
    ]


def _layer(config: BertConfig) -> list[Weight]:
    theirs, google, width = "transformer.layer.*", f"{_SCOPE}/layer_*", config.hidden_size
    heads, inner, rows = (config.num_attention_heads, config.head_size), config.intermediate_size, []
    for name, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("distance", "r"), ("output_dense", "o")):
        layout = HEADS_LAST if letter == "o" else HEADS_OUT
        names = f"{theirs}.rel_attn.{letter}", f"{google}/rel_attn/{letter}/kernel"
        kernel = Weight(f"{LAYER}/attention/{name}/kernel", (width, width), *names)
        rows.append(kernel._replace(hugging_face_layout=layout, google_layout=layout))
    for name, their_name in _ATTENTION.items():
        shape = (2, *heads) if name == "segment_embeddings" else heads
        names = f"{theirs}.rel_attn.{their_name}", f"{google}/{their_name}"
        rows.append(Weight(f"{LAYER}/attention/{name}", shape, *names))
    norm = f"{theirs}.rel_attn.layer_norm", f"{google}/rel_attn/LayerNorm"
    return [
        *rows,
        *layer_norm(f"{LAYER}/attention_layer_norm", width, *norm),
        *dense(f"{LAYER}/intermediate_dense", width, inner, f"{theirs}.ff.layer_1", f"{google}/ff/layer_1"),
        *dense(f"{LAYER}/output_dense", inner, width, f"{theirs}.ff.layer_2", f"{google}/ff/layer_2"),
        *layer_norm(f"{LAYER}/output_layer_norm", width, f"{theirs}.ff.layer_norm", f"{google}/ff/LayerNorm"),
    ]


def _of_theirs(values: Mapping, file: str) -> dict:
    """Returns the values of a config of transformers or zihangdai/xlnet with our keys."""
    width, heads, head_size = (values.get(name) for name in ("d_model", "n_head", "d_head"))
    if all(isinstance(value, int) for value in (width, heads, head_size)) and heads * head_size != width:
        raise InputError(
            f"{file}: d_head={head_size} and n_head={heads} do not make d_model={width}. Only heads that divide "
            "d_model are supported."
        )
    ours = {_GOOGLE_KEYS.get(name, name): value for name, value in values.items()}
    if "hidden_dropout_prob" in ours:  # transformers has one rate for both
        ours.setdefault("attention_probs_dropout_prob", ours["hidden_dropout_prob"])
    return ours


def _of_google(values: Mapping, file: str) -> dict:
    return _of_theirs({name: value for name, value in values.items() if name not in _FIXED}, file)


def _divided(variables: Mapping[str, StoredTensor], num_layers: int) -> dict[str, StoredTensor]:
    """Returns variables with one bias for each layer, named `layer_<number>/<name>`.

    A file has the biases of all layers in one variable, `[L, N, D]`. If its model has `untie_r` false, its layers share
    them, `[N, D]`; then every layer gets a copy.
    """
    divided = dict(variables)
    for name in _ATTENTION.values():
        tensor = divided.pop(f"{_SCOPE}/{name}", None)
        if tensor is None:
            continue
        num_axes = 4 if name == "seg_embed" else 3
        if len(tensor.shape) == num_axes and tensor.shape[0] != num_layers:
            raise InputError(
                f"{_SCOPE}/{name} has the shape {list(tensor.shape)}, but the config has {num_layers} layers "
                "(n_layer). The config belongs to another checkpoint."
            )
        for number in range(num_layers):
            of_layer = tensor
            if len(tensor.shape) == num_axes:
                of_layer = tensor.changed(tensor.shape[1:], lambda array, number=number: array[number])
            divided[f"{_SCOPE}/layer_{number}/{name}"] = of_layer
    return divided


def _joined(variables: Mapping[str, StoredTensor], num_layers: int) -> dict[str, StoredTensor]:
    """Reverses `_divided`."""
    joined = dict(variables)
    for name in _ATTENTION.values():
        parts = [joined.pop(f"{_SCOPE}/layer_{number}/{name}") for number in range(num_layers)]
        joined[f"{_SCOPE}/{name}"] = StoredTensor(
            (num_layers, *parts[0].shape),
            parts[0].dtype,
            lambda parts=parts: np.stack([part.read() for part in parts]),
        )
    return joined


def _to_google(config: BertConfig) -> dict:
    values = config.to_dict()
    kept = {theirs: values.pop(ours) for theirs, ours in _GOOGLE_KEYS.items() if ours in values}
    return {"d_head": config.head_size, "untie_r": True, **kept, **values}


FAMILY = Family(
    defaults={"vocab_size": 32000, "do_lower_case": False},
    sizes={"xlnet-base": size(12, 768, 12), "xlnet-large": size(24, 1024, 16)},
    tokenizer=SENTENCE_PIECE,
    predicts_from_queries=True,
    config="keras_bert.encoders.xlnet.config.XLNetConfig",
    encoder="keras_bert.encoders.xlnet.encoder.XLNetEncoder",
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(
        classes="XLNet",
        prefix="transformer",
        poolers=dict.fromkeys((form.CLASSIFIER, "choice_scorer"), ("sequence_summary.summary",)),
        outputs=dict.fromkeys((form.CLASSIFIER, "choice_scorer"), "logits_proj"),
        renamed={"ForMaskedLM": "LMHeadModel", "ForQuestionAnswering": "ForQuestionAnsweringSimple"},
        pooler_act_heads=None,
        first_token_is_last=True,
        keys=_KEYS,
        defaults={"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
        more=KnownKeys(
            used=("d_head",),
            harmless=(
                *("mem_len", "reuse_len", "use_mems_eval", "use_mems_train", "start_n_top", "end_n_top", "untie_r"),
                *("summary_last_dropout", "summary_first_dropout", "init", "init_range", "init_std", "dropatt"),
            ),
            fixed=_FIXED,
        ),
        read=_of_theirs,
        write=lambda values, checkpoint: {name: value for name, value in values.items() if name != "type_vocab_size"},
    ),
    google=Google(
        sign=r"model/transformer/layer_\d+/rel_attn/.*",
        more=KnownKeys(used=(*_GOOGLE_KEYS, "d_head"), harmless=("untie_r",), fixed=_FIXED),
        read=_of_google,
        write=_to_google,
        divided=_divided,
        joined=_joined,
    ),
)
