"""ELECTRA. Reference: Clark et al., 2020, arXiv 2003.10555; google-research/electra."""

import re
from collections.abc import Mapping

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.family_formats import Google, HuggingFace, KerasHub
from keras_bert.checkpoints.weight_list import Weight, blocks, dense, embeddings, masked_lm, pooler, projection
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member, strings
from keras_bert.registry import Family, size

_PREDICTIONS = (
    "generator_predictions.dense",
    "generator_predictions.LayerNorm",
    "generator_lm_head.bias",
    "generator_lm_head",
)
_GOOGLE_PREDICTIONS = tuple(f"generator_predictions/{part}" for part in ("dense", "LayerNorm", "output_bias"))
# In Google's configs of ELECTRA, "gelu" is the exact GELU.
_ACTIVATIONS = {"gelu": "gelu_erf", "gelu_new": "gelu", "relu": "relu", "tanh": "tanh", "linear": "linear"}


def weights(config: BertConfig) -> list[Weight]:
    """Returns the weights of an ELECTRA, and those of the generator that it was trained with."""
    head = "discriminator_predictions"
    of_discriminator = [
        *projection(config, "electra.embeddings_project", "electra/embeddings_project"),
        *blocks(config, "electra.encoder.layer.*", google="electra/encoder/layer_*"),
    ]
    of_generator = masked_lm(config, _PREDICTIONS, _GOOGLE_PREDICTIONS)
    width, replaced = config.hidden_size, form.REPLACED_TOKEN
    return [
        *embeddings(config, "electra", "electra"),
        *of_discriminator,
        *pooler(config),
        *of_generator,
        *dense(f"{replaced}/dense", width, width, f"{head}.dense", f"{head}/dense"),
        *dense(f"{replaced}/output_dense", width, 1, f"{head}.dense_prediction", f"{head}/dense_1"),
        *(_in_generator(row, row.google.replace("electra/", "generator/", 1)) for row in of_discriminator),
        *(_in_generator(row, row.google) for row in of_generator if row.google),
    ]


def _in_generator(row: Weight, google: str) -> Weight:
    """Returns a weight that the generator does not share with the discriminator. Its size is that of the generator."""
    return Weight(f"{form.GENERATOR}/{row.ours}", (), google=google, is_needed=False)


def _with_summary(values: Mapping, file: str) -> Mapping:
    """Returns the values with the pooler's activation of an ElectraForMultipleChoice: only it reads `summary_*`."""
    if not "".join(strings(values, "architectures", file)[:1]).endswith("ForMultipleChoice"):
        return values
    settings = {name: value for name, value in values.items() if name.startswith("summary_")}
    KnownKeys(("summary_activation",), fixed={"summary_type": ("first",), "summary_use_proj": (True,)}).check(
        settings, file
    )
    return {**values, "pooler_act": settings.get("summary_activation", "gelu")}


def _as_summary(values: Mapping, checkpoint: form.BertCheckpoint) -> dict:
    return {"summary_activation" if name == "pooler_act" else name: value for name, value in values.items()}


def _of_google(values: Mapping, file: str) -> dict:
    activation = member(values, "hidden_act", str, file, "gelu")
    return {**values, "hidden_act": _ACTIVATIONS.get(activation, activation)}


def _to_google(config: BertConfig) -> dict:
    theirs = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    return {**config.to_dict(), "hidden_act": theirs.get(config.hidden_act, config.hidden_act)}


def _of_generator(variables: Mapping) -> set[str]:
    """Returns the names of the generator's variables; none if it was trained alone, without an encoder of its own."""
    if not any(name.startswith("generator/") for name in variables):
        return set()
    return {name for name in variables if name.startswith(("generator/", "generator_predictions/"))}


def _sizes_of_shapes(folder: str, variables: Mapping[str, form.StoredTensor]) -> dict:
    """Derives the sizes of an ELECTRA from its shapes. All published ELECTRAs have attention heads of size 64."""
    layers = [re.fullmatch(r"electra/encoder/layer_(\d+)/.*", name) for name in variables]
    try:
        vocab_size, embedding_size = variables["electra/embeddings/word_embeddings"].shape
        hidden_size, intermediate_size = variables["electra/encoder/layer_0/intermediate/dense/kernel"].shape
        values = {
            "vocab_size": vocab_size,
            "embedding_size": embedding_size,
            "hidden_size": hidden_size,
            "intermediate_size": intermediate_size,
            "num_hidden_layers": 1 + max(int(layer[1]) for layer in layers if layer),
            "num_attention_heads": hidden_size // 64,
            "max_position_embeddings": variables["electra/embeddings/position_embeddings"].shape[0],
            "type_vocab_size": variables["electra/embeddings/token_type_embeddings"].shape[0],
        }
    except (KeyError, ValueError, IndexError) as error:
        raise InputError(f"{folder} is not a complete ELECTRA ({error}). Copy it again.") from None
    if hidden_size % 64:
        raise InputError(
            f"{folder}: the hidden size {hidden_size} is not divisible by 64, the head size of ELECTRA. Add "
            "electra_config.json with the keys of bert_config.json, including num_attention_heads."
        )
    return values


FAMILY = Family(
    defaults={"vocab_size": 30522, "hidden_act": "gelu_erf", "pooler_act": "gelu_erf"},
    sizes={
        "electra-small": size(12, 256, 4, embedding_size=128),
        "electra-base": size(12, 768, 12),
        "electra-large": size(24, 1024, 16),
    },
    masked_lm_act="gelu_erf",
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(
        classes="Electra",
        prefix="electra",
        poolers={form.CLASSIFIER: ("classifier.dense",), "choice_scorer": ("sequence_summary.summary",)},
        outputs={form.CLASSIFIER: "classifier.out_proj"},
        pooler_act_heads=("choice_scorer",),
        defaults={"embedding_size": 128, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024},
        more=KnownKeys(
            used=("summary_type", "summary_use_proj", "summary_activation"),
            harmless=("summary_last_dropout", "summary_first_dropout"),
            fixed={"summary_proj_to_labels": (False,)},
        ),
        sizes=("embedding_size",),
        read=_with_summary,
        write=_as_summary,
    ),
    google=Google(
        sign="electra/.*",
        has_pooler=False,
        warnings={"gelu": "google-research/electra has the exact GELU only; with 'gelu' its outputs differ slightly"},
        sizes=_sizes_of_shapes,
        read=_of_google,
        write=_to_google,
        of_generator=_of_generator,
    ),
    keras_hub=KerasHub(
        "ElectraBackbone",
        {"hidden_act": "gelu", "pooler_act": "tanh"},
        remark="KerasHub and this model use the tanh GELU, but Google trained ELECTRA with the exact GELU",
    ),
)
