"""Folders of Hugging Face transformers: `config.json` with `model.safetensors` or `pytorch_model.bin`.

Reference: huggingface/transformers, `models/bert/` (`configuration_bert.py`, `modeling_bert.py`).
"""

import dataclasses
import glob
import json
import os
import re
import reprlib
from collections.abc import Mapping

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints import hugging_face_tokenizer as tokenizer
from keras_bert.checkpoints import modern_bert_keys, xlnet_files
from keras_bert.checkpoints.checkpoint import BertCheckpoint, StoredTensor
from keras_bert.checkpoints.family_names import NAMES, FamilyNames
from keras_bert.checkpoints.name_table import NameTable, to_ours, to_theirs
from keras_bert.checkpoints.safetensors_file import read_safetensors, write_safetensors
from keras_bert.checkpoints.same_family import check_same_family
from keras_bert.checkpoints.sentence_transformers import read_sentence_modules, write_sentence_modules
from keras_bert.checkpoints.torch_file import read_torch_file
from keras_bert.config import SENTENCE_POOLING, BertConfig, config_class
from keras_bert.families import FAMILIES, WORD_PIECE
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import checked, member, read_json_object, strings

CONFIG_FILE = "config.json"
SAFETENSORS_FILE = "model.safetensors"
TORCH_FILE = "pytorch_model.bin"
WEIGHTS_FILES = (SAFETENSORS_FILE, f"{SAFETENSORS_FILE}.index.json", TORCH_FILE, f"{TORCH_FILE}.index.json")

# Activations: their name -> ours. Their "gelu" is the exact GELU, ours the tanh approximation (see `BertConfig`).
_ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "gelu_accurate": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
_ACTIVATIONS_BACK = {"gelu": "gelu_new", "gelu_erf": "gelu", "relu": "relu", "tanh": "tanh", "linear": "linear"}

# End of their class name -> our head; the first entry that fits a checkpoint names its class.
_ARCHITECTURES = {
    "ForQuestionAnswering": form.SPAN_CLASSIFIER,
    "ForQuestionAnsweringSimple": form.SPAN_CLASSIFIER,
    "ForTokenClassification": form.TOKEN_CLASSIFIER,
    "ForMultipleChoice": form.MULTIPLE_CHOICE,
    "ForSequenceClassification": form.CLASSIFIER,
}
# Config keys of a family -> config keys of the other families.
_KEYS = {
    "distilbert": {
        "dim": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "hidden_dim": "intermediate_size",
        "activation": "hidden_act",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
    },
    "modernbert": {
        "hidden_activation": "hidden_act",
        "classifier_activation": "pooler_act",
        "norm_eps": "layer_norm_eps",
        "classifier_dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
    },
    "xlnet": xlnet_files.KEYS,
}
# Defaults of transformers' config classes, which its config files leave out.
_THEIR_DEFAULTS = {
    "bert": {"vocab_size": 30522},
    "roberta": {"vocab_size": 50265, "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12},
    "albert": {
        "embedding_size": 128,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
        "hidden_act": "gelu_new",
    },
    "distilbert": {"num_hidden_layers": 6},
    "electra": {"embedding_size": 128, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024},
    "longformer": {"vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12},
    "big_bird": {"hidden_act": "gelu_new"},
    "mobilebert": {},
    "xlnet": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    "modernbert": {"num_hidden_layers": 22, "intermediate_size": 1152, "pooler_act": "gelu"},
}
# Settings of BigBird and MobileBERT that no published model has.
_FIXED = {"rescale_embeddings": False, "use_bias": True, "trigram_input": True, "use_bottleneck": True}
_PROBLEM_TYPES = {
    "single_label_classification": "classification",
    "multi_label_classification": "multi_label",
    "regression": "regression",
}
_OF_BARE_ENCODERS = (
    "embeddings.",
    "embeddings_project.",
    "encoder.",
    "pooler.",
    "transformer.",
    "layers.",
    "final_norm.",
    "word_embedding.",
    "layer.",
    "mask_emb",
)
# Our keys that transformers derives from the family.
_NOT_THEIRS = ("do_lower_case", "embedding_projection", "position_offset", "pooler_act")
_POOLER = f"{form.POOLER}/dense/kernel"
_CONSTANTS = re.compile(r".*\bembeddings\.(position_ids|token_type_ids)$")


def read_hugging_face(path: str, trust_pickle: bool = False) -> BertCheckpoint:
    """Reads a folder that `save_pretrained` of transformers wrote.

    Raises:
        InputError: a file is missing or damaged, the model is not of BERT's family, or it has an unsupported setting
            (position type, decoder, activation).
    """
    file = os.path.join(path, CONFIG_FILE)
    values = read_json_object(file)
    architecture = (strings(values, "architectures", file) or [""])[0]
    config = config_from(path, values)
    sentence = read_sentence_modules(path, config, trust_pickle)
    if sentence.pooling != "mean":
        config = config.replace(extra={SENTENCE_POOLING: sentence.pooling})
    weights_path, stored = read_weights(path, trust_pickle)
    names = NAMES[config.model_type]
    head = _head_of(architecture)
    if head == form.CLASSIFIER and names.classifier_has_hidden_act:
        config = config.replace(pooler_act=config.hidden_act)
    table = names.hugging_face(config, head)
    tensors, ignored = named_as_ours(stored, names, table)
    head = head or form.CLASSIFIER
    xlnet_files.without_unused_embedding(tensors, ignored)
    if form.TOKEN_EMBEDDINGS not in tensors:
        raise InputError(
            f"{weights_path} holds no BERT: {table.theirs(form.TOKEN_EMBEDDINGS)[0]} is missing. Its "
            f"tensors are called {', '.join(list(stored)[:3])}, ..."
        )
    if config.tie_word_embeddings:
        # Older versions wrote a shared table twice. transformers reads the encoder's copy.
        tensors.pop(form.OUTPUT_EMBEDDINGS, None)
    elif names.decoder_bias in stored and _bias(names) in stored:
        ignored.append(_bias(names))
    kind = FAMILIES[config.model_type].tokenizer
    if config.model_type == "big_bird" and os.path.isfile(os.path.join(path, tokenizer.VOCABULARY_FILE)):
        kind = WORD_PIECE  # a BERT that was extended to a BigBird
    if kind == WORD_PIECE:
        vocabulary, casing, remarks = tokenizer.read_tokenizer(path, config.vocab_size)
    else:
        vocabulary, casing, remarks = tokenizer.read_other_tokenizer(path, kind, config.vocab_size)
    config = config.replace(**casing)
    has_labels = head in (form.CLASSIFIER, form.TOKEN_CLASSIFIER)
    labels = _labels(path, values, form.num_outputs(weights_path, tensors, head)) if has_labels else None
    return BertCheckpoint(
        path=path,
        kind=f"Hugging Face {architecture}".strip(),
        config=config,
        vocabulary=vocabulary,
        tensors=tensors | sentence.tensors,
        labels=labels,
        problem_type=_problem_type(values, labels) if head == form.CLASSIFIER else "classification",
        sentence=sentence.arguments,
        ignored=tuple(ignored),
        remarks=tuple(remarks),
        says_casing=bool(casing),
    )


def write_hugging_face(checkpoint: BertCheckpoint, folder: str) -> list[str]:
    """Writes `config.json`, `model.safetensors` and the tokenizer's files into an existing folder.

    Returns:
        The names of our weights that the format cannot hold; they are not written.

    Raises:
        InputError: transformers would compute something else, see `check_same_family`.
    """
    heads, config = checkpoint.heads, checkpoint.config
    names = NAMES[config.model_type]
    architecture = next((name for name, head in _ARCHITECTURES.items() if head in heads), None)
    if form.REPLACED_TOKEN in heads and names.replaced_token:
        architecture = architecture or "ForPreTraining"
    architecture = architecture or _language_model(
        form.MASKED_LM in heads, form.NEXT_SENTENCE in heads and bool(names.next_sentence)
    )
    table = names.hugging_face(config, _head_of(architecture))
    architecture = names.renamed.get(architecture, architecture)
    has_pooler = bool(table.theirs(_POOLER)) and _POOLER in checkpoint.tensors
    check_same_family(checkpoint, "transformers", always_projects=True, has_pooler=has_pooler)
    is_bare = architecture == "Model"
    architecture = names.classes + architecture
    written, left_out = {}, []
    for name, tensor in checkpoint.tensors.items():
        theirs = table.theirs(name)
        if theirs is None:
            left_out.append(name)
        else:
            # A bare BertModel has no prefix; in models with a head, its weights have the prefix "bert.".
            key = theirs[0].removeprefix(f"{names.prefix}.") if is_bare else theirs[0]
            written[key] = to_theirs(tensor, theirs[1], config.num_attention_heads)
    if form.OUTPUT_EMBEDDINGS in checkpoint.tensors and names.decoder_bias:
        written[names.decoder_bias] = checkpoint.tensors[form.OUTPUT_BIAS]
    with atomic_file(os.path.join(folder, CONFIG_FILE)) as file:
        values = config_values(checkpoint, architecture)
        file.write((json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode())
    with atomic_file(os.path.join(folder, SAFETENSORS_FILE)) as file:
        write_safetensors(file, written, {"format": "pt"})
    if checkpoint.vocabulary is not None:
        tokenizer.write_tokenizer(folder, checkpoint.vocabulary, config)
    if checkpoint.sentence is not None:
        write_sentence_modules(checkpoint, folder)
        left_out = [name for name in left_out if not name.startswith(f"{form.SENTENCE_HEAD}/")]
    return left_out


def config_from(path: str, values: Mapping) -> BertConfig:
    """Returns the config of a model in a folder. Raises `InputError` if one of its settings is not supported."""
    file = os.path.join(path, CONFIG_FILE)
    model_type = values.get("model_type", "bert")
    if not isinstance(model_type, str) or model_type not in NAMES:
        raise InputError(
            f"{file}: model_type is {reprlib.repr(model_type)}, which is not of BERT's family. Use a checkpoint of: "
            f"{', '.join(NAMES)}"
        )
    family = FAMILIES[model_type]
    if model_type == "xlnet":
        values = xlnet_files.of_theirs(values, file)
    ours = _KEYS.get(model_type, {})
    values = {name: value for name, value in values.items() if name not in ours} | {
        ours[name]: value for name, value in values.items() if name in ours
    }
    if model_type == "modernbert":
        values = modern_bert_keys.of_theirs(values, file)
    if values.get("position_embedding_type", "absolute") != "absolute":
        raise InputError(
            f"{file}: position_embedding_type is {reprlib.repr(values['position_embedding_type'])}. Only 'absolute', "
            "BERT's learnt table, is supported."
        )
    if values.get("is_decoder") or values.get("add_cross_attention"):
        raise InputError(
            f"{file}: the model is a decoder (is_decoder is true). Only bidirectional encoders are supported."
        )
    for name, value in _FIXED.items():
        if values.get(name, value) != value:
            raise InputError(f"{file}: {name} is {reprlib.repr(values[name])}. Only {value} is supported.")
    values = {**_THEIR_DEFAULTS[model_type], **values}
    activations = {"hidden_act": member(values, "hidden_act", str, file, "gelu")}
    if "pooler_act" in values:
        activations["pooler_act"] = member(values, "pooler_act", str, file)
    for name, activation in activations.items():
        if activation not in _ACTIVATIONS:
            raise InputError(f"{file}: {name} is {reprlib.repr(activation)}. Supported: {', '.join(_ACTIVATIONS)}")
    activations = {name: _ACTIVATIONS[activation] for name, activation in activations.items()}
    defaults = {**family.defaults, "tie_word_embeddings": True}
    fields = dataclasses.fields(config_class(model_type))
    names = [field.name for field in fields if field.name != "extra"] + [SENTENCE_POOLING]
    kept = {name: values[name] for name in names if values.get(name) is not None and name != "do_lower_case"}
    if family.defaults.get("position_offset"):
        kept["position_offset"] = member(values, "pad_token_id", int, file, 1) + 1
    try:
        return BertConfig.from_dict({**defaults, **kept, **activations})
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def config_values(checkpoint: BertCheckpoint, architecture: str) -> dict:
    """Returns the values of transformers' config for a checkpoint."""
    config = checkpoint.config
    values = {name: value for name, value in config.replace(extra={}).to_dict().items() if name not in _NOT_THEIRS}
    if config.model_type in ("albert", "electra", "mobilebert"):
        values |= {"embedding_size": config.embedding_size}
    if config.model_type == "albert":
        values |= {"num_hidden_groups": config.num_hidden_groups, "inner_group_num": config.inner_group_num}
    vocabulary = checkpoint.vocabulary
    values |= {
        "architectures": [architecture],
        "model_type": config.model_type,
        "hidden_act": _ACTIVATIONS_BACK[config.hidden_act],
        "pad_token_id": vocabulary.pad_id if vocabulary else max(config.position_offset - 1, 0),
        "position_embedding_type": "absolute",
        "classifier_dropout": None,
        "use_cache": True,
    }
    if config.sentence_pooling != "mean":
        values[SENTENCE_POOLING] = config.sentence_pooling
    if checkpoint.labels:
        values["id2label"] = {str(number): label for number, label in enumerate(checkpoint.labels)}
        values["label2id"] = {label: number for number, label in enumerate(checkpoint.labels)}
    if config.model_type == "modernbert":
        values = modern_bert_keys.to_theirs(values, _ACTIVATIONS_BACK[config.pooler_act], vocabulary)
    if config.model_type in _KEYS:
        theirs = {ours: theirs for theirs, ours in _KEYS[config.model_type].items()}
        values = {theirs.get(name, name): value for name, value in values.items() if name != "type_vocab_size"}
    if config.model_type == "xlnet":
        values |= {"summary_activation": _ACTIVATIONS_BACK[config.pooler_act]}
    if form.CLASSIFIER in checkpoint.heads:
        values["problem_type"] = next(
            theirs for theirs, ours in _PROBLEM_TYPES.items() if ours == checkpoint.problem_type
        )
    return values


def _language_model(has_masked_lm: bool, has_next_sentence: bool) -> str:
    if has_masked_lm:
        return "ForPreTraining" if has_next_sentence else "ForMaskedLM"
    return "ForNextSentencePrediction" if has_next_sentence else "Model"


def _head_of(architecture: str) -> str | None:
    """Returns the head of one of their classes, or None for an encoder or a language model."""
    return next((head for name, head in _ARCHITECTURES.items() if architecture.endswith(name)), None)


def _bias(names: FamilyNames) -> str:
    return next(weight.hugging_face for weight in names.masked_lm if weight.ours == form.OUTPUT_BIAS)


def _labels(path: str, values: Mapping, count: int | None) -> tuple[str, ...] | None:
    if count is None:
        return None
    names = member(values, "id2label", dict, os.path.join(path, CONFIG_FILE), {})
    labels = tuple(str(names.get(str(number), f"LABEL_{number}")) for number in range(count))
    if len(names) not in (0, count) and "num_labels" not in values:
        raise InputError(
            f"{os.path.join(path, CONFIG_FILE)} names {len(names)} labels (id2label), and the classifier has {count} "
            "outputs. The config belongs to another checkpoint."
        )
    return labels


def _problem_type(values: Mapping, labels: tuple[str, ...] | None) -> str:
    """Returns the `problem_type`. By default a classifier with one output is a regression, as in transformers."""
    theirs = member(values, "problem_type", str, CONFIG_FILE)
    if theirs in _PROBLEM_TYPES:
        return _PROBLEM_TYPES[theirs]
    return "regression" if labels and len(labels) == 1 else "classification"


def read_weights(path: str, trust_pickle: bool) -> tuple[str, dict[str, StoredTensor]]:
    """Returns the weights file and its tensors. Prefers safetensors to pickles, and single files to shards."""
    for name in WEIGHTS_FILES:
        file = os.path.join(path, name)
        if os.path.isfile(file):
            if not name.endswith(".json"):
                return file, _read_file(file, trust_pickle)
            form.check_stored_file(file)
            weight_map = member(read_json_object(file), "weight_map", dict, file, {})
            tensors = {}
            for part in sorted({checked(part, str, "each part of weight_map", file) for part in weight_map.values()}):
                tensors |= _read_file(os.path.join(path, os.path.basename(part)), trust_pickle)
            return file, tensors
    others = [os.path.basename(name) for name in glob.glob(os.path.join(path, "*")) if _is_other_weights(name)]
    raise InputError(
        f"{path} has a {CONFIG_FILE} but neither {SAFETENSORS_FILE} nor {TORCH_FILE}. Copy one of them there."
        + (f" {', '.join(others)} cannot be read." if others else "")
    )


def has_weights(path: str) -> bool:
    """Returns whether a folder has a file of weights that `read_weights` reads."""
    return any(os.path.isfile(os.path.join(path, name)) for name in WEIGHTS_FILES)


def _is_other_weights(path: str) -> bool:
    return path.endswith((".h5", ".msgpack", ".onnx", ".ot", ".gguf", ".safetensors", ".bin"))


def _read_file(path: str, trust_pickle: bool) -> dict[str, StoredTensor]:
    return read_safetensors(path) if path.endswith(".safetensors") else read_torch_file(path, trust_pickle)


def named_as_ours(
    stored: Mapping[str, StoredTensor], names: FamilyNames, table: NameTable
) -> tuple[dict[str, StoredTensor], list[str]]:
    """Returns our name -> tensor in our layout, and the unknown names."""
    tensors, ignored = {}, []
    for key, tensor in stored.items():
        name = key.removeprefix("module.")  # of torch's DataParallel
        if name.startswith(_OF_BARE_ENCODERS) and not name.startswith(f"{names.prefix}."):
            name = f"{names.prefix}.{name}"
        # The first BERTs for PyTorch kept TensorFlow's names of LayerNorm weights.
        name = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
        if name in (_bias(names), names.decoder_bias):
            # If the decoder has its own bias, that one is used; otherwise the two are equal.
            if name == names.decoder_bias or form.OUTPUT_BIAS not in tensors:
                tensors[form.OUTPUT_BIAS] = tensor
            continue
        ours = table.ours(name)
        if ours:
            tensors[ours[0]] = to_ours(tensor, ours[1])
        elif not _CONSTANTS.fullmatch(name):
            ignored.append(key)
    return tensors, ignored
