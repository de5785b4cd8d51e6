"""The settings in folders of sentence-transformers: prompts, maximum length, names of activations.

Reference: sentence-transformers 6.2, `base/modules/transformer.py` and `base/model.py`.
"""

import os
from collections.abc import Mapping
from typing import Any

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import checked, member, read_json_object

PROMPTS_FILE = "config_sentence_transformers.json"
# All versions of sentence-transformers read the first of these files.
LENGTH_FILE = "sentence_bert_config.json"
_LENGTH_FILES = (
    *(LENGTH_FILE, "sentence_roberta_config.json", "sentence_distilbert_config.json"),
    *("sentence_albert_config.json", "sentence_xlnet_config.json"),
)
_TOKENIZER_FILE = "tokenizer_config.json"
_LOADING_KEYS = ("torch_dtype", "dtype", "attn_implementation", "low_cpu_mem_usage", "add_pooling_layer", "device_map")
_LOADING = ("model_args", "model_kwargs", "config_args", "config_kwargs", "tokenizer_args", "processor_kwargs")


def transformer_keys(
    task: str = "feature-extraction",
    output: str = "last_hidden_state",
    output_name: str = "token_embeddings",
    used: tuple[str, ...] = (),
) -> KnownKeys:
    """Returns the keys of the settings of a Transformer.

    Args:
        task: what the Transformer computes.
        output: its output in transformers.
        output_name: the name of this output in sentence-transformers.
        used: keys that are used besides those of every Transformer.
    """
    return KnownKeys(
        used=("max_seq_length", "do_lower_case", *_LOADING, *used),
        harmless=("unpad_inputs", "tokenizer_name_or_path"),
        fixed={
            "transformer_task": (task,),
            "modality_config": ({"text": {"method": "forward", "method_output_name": output}},),
            "module_output_name": (output_name,),
            "processing_kwargs": ({},),
        },
    )


_OF_VECTORS = transformer_keys()
SETTINGS_KEYS = KnownKeys(
    used=("prompts", "default_prompt_name", "model_type", "similarity_fn_name", "activation_fn"),
    harmless=("__version__", "requirements", "keep_in_fp32_modules"),
    refused={
        "truncate_dim": "vectors are cut there. Remove it from a copy of the file, and give dimensions=n to encode."
    },
)


def model_settings(path: str) -> dict[str, Any]:
    """Returns the content of `config_sentence_transformers.json`, or an empty dictionary."""
    file = os.path.join(path, PROMPTS_FILE)
    return read_json_object(file) if os.path.isfile(file) else {}


def prompts_of(settings: Mapping, file: str) -> tuple[dict[str, str], str | None]:
    """Returns the prompts and the name of the default prompt. An empty text is a prompt too."""
    prompts = dict(member(settings, "prompts", dict, file, {}))
    for name, text in prompts.items():
        checked(text, str, f"the prompt {name!r:.100}", file)
    default = member(settings, "default_prompt_name", str, file)
    if default in ("query", "document"):  # which every model has there
        prompts.setdefault(default, "")
    if default is not None and default not in prompts:
        raise InputError(f"{file}: default_prompt_name is {default[:100]!r}, which is none of its prompts.")
    return prompts, default


def named_activation(values: Mapping, name: str, known: Mapping[str, str], file: str) -> str | None:
    """Returns our name of the activation `values[name]`, None if it is missing.

    Args:
        known: import path of a class of torch -> our name.
    """
    activation = member(values, name, str, file)
    if activation is None:
        return None
    of_class = {path.rpartition(".")[2]: ours for path, ours in known.items()}
    package, _, kind = activation.rpartition(".")
    if not package.startswith("torch.nn") or kind not in of_class:
        raise InputError(f"{file}: the activation {activation[:100]!r} is unknown. Known are: {', '.join(known)}")
    return of_class[kind]


def longest_text(folder: str, config: BertConfig, keys: KnownKeys | None = _OF_VECTORS) -> int | None:
    """Returns the maximum length of the Transformer in a folder.

    Args:
        keys: those of its settings, which say what the Transformer computes; None if they are not read.

    Raises:
        InputError: the Transformer computes something else, or it lower-cases texts that the tokenizer does not.
    """
    longest = None
    if keys is not None:
        longest = _checked_length(folder, config, keys)
    longest = longest or _tokenizer_length(folder)
    # Some files name more tokens than the model has positions.
    return longest and min(longest, config.max_sequence_length)


def settings_of_transformer(folder: str) -> tuple[dict[str, Any], str]:
    """Returns the content of the file about the Transformer in a folder, and its path. A missing file is empty."""
    files = [os.path.join(folder, name) for name in _LENGTH_FILES]
    file = next((file for file in files if os.path.isfile(file)), files[0])
    return read_json_object(file) if os.path.isfile(file) else {}, file


def _checked_length(folder: str, config: BertConfig, keys: KnownKeys) -> int | None:
    values, file = settings_of_transformer(folder)
    keys.check(values, file)
    for name in _LOADING:
        KnownKeys(harmless=_LOADING_KEYS).check(member(values, name, dict, file, {}), f"{file}: {name}")
    if member(values, "do_lower_case", bool, file, False) and not config.do_lower_case:
        raise InputError(
            f"{file}: do_lower_case is not supported, because it lower-cases texts before the tokenizer. Set it to "
            "false if the tokenizer lower-cases texts itself."
        )
    return member(values, "max_seq_length", int, file)


def _tokenizer_length(path: str) -> int | None:
    """Returns the maximum length that newer versions write into the tokenizer's file instead of their own."""
    file = os.path.join(path, _TOKENIZER_FILE)
    return member(read_json_object(file), "model_max_length", int, file) if os.path.isfile(file) else None
