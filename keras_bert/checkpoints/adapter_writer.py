"""Writes the LoRA of a model as an adapter of PEFT, which PEFT loads beside the base model."""

import os
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import BertCheckpoint, StoredTensor
from keras_bert.checkpoints.hub import HUB_PREFIX
from keras_bert.checkpoints.hugging_face_config import CONFIG_FILE, config_values
from keras_bert.checkpoints.hugging_face_tokenizer import write_tokenizer
from keras_bert.checkpoints.model_weights import model_weights
from keras_bert.checkpoints.name_table import TRANSPOSED, NameTable, Reordered, to_theirs
from keras_bert.checkpoints.peft_adapter import ADAPTER_FILE, ADAPTER_WEIGHTS, PREFIX, TASK_TYPES
from keras_bert.checkpoints.pretrained import checkpoint_of, untrained_parts
from keras_bert.checkpoints.safetensors_file import write_safetensors
from keras_bert.checkpoints.same_family import check_same_family
from keras_bert.checkpoints.sentence_transformers import write_tasks
from keras_bert.models.trainable_parts import lora_layers
from keras_bert.program.atomic_output import atomic_file, atomic_folder
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import write_json
from keras_bert.registry import heads


def save_adapter(model: keras.Model, path: str | os.PathLike, base: str | os.PathLike | None = None) -> None:
    """Writes the LoRA of a model, its head and its pooler as a folder of PEFT: all that `enable_lora` trains.

    The folder has a few percent of the size of the model. `from_pretrained(path)` and PEFT's
    `PeftModel.from_pretrained(base_model, path)` load it on the same base model; `config.json` holds the labels.
    `save_pretrained` writes the whole model instead, with LoRA merged.

    Args:
        model: an encoder, a `SentenceEncoder`, or a model whose head is one dense layer, with LoRA, see `enable_lora`.
        path: a new or empty folder.
        base: the folder or the hub's name of the base model, which the adapter names; None for the checkpoint that the
            model was loaded from.

    Raises:
        InputError: LoRA is not enabled, the base model is not known, PEFT has no place for the head, transformers
            cannot compute the model, or `path` cannot be written to.

    Example:
        model = SequenceClassifier.from_pretrained("hf://google-bert/bert-base-uncased", labels=["bad", "good"])
        enable_lora(model, rank=8)
        model.fit(texts, labels)
        save_adapter(model, "adapter")

    Reference: PEFT 0.21, "PEFT checkpoint format".
    """
    layers = lora_layers(model)
    if not layers:
        raise InputError("save_adapter needs a model with LoRA. Call enable_lora before training, or save_pretrained.")
    base = os.fspath(base or model.new_parts.source)
    if not base:
        raise InputError("save_adapter: this model was not loaded from a checkpoint. Give base=, its base model.")
    untrained = untrained_parts(model)
    checkpoint = checkpoint_of(model).without_parts(untrained)
    config, family, head = checkpoint.config, checkpoint.config.family.hugging_face, _head_of(checkpoint)
    assert family is not None
    check_same_family(checkpoint, "transformers", always_projects=True, has_pooler=form.POOLER not in untrained)
    ending = heads()[head].hugging_face[0] if head else TASK_TYPES["FEATURE_EXTRACTION"]
    architecture = family.classes + family.renamed.get(ending, ending)
    table, prefix = family.names(config, head), f"{family.prefix}."
    parts = (head, form.POOLER) if model.uses_pooler else (head,)
    whole = {name: tensor for name, tensor in checkpoint.tensors.items() if form.part_of(name) in parts}
    whole, _ = table.write(whole, config.num_attention_heads)
    tensors = {**whole, **_matrices(model, layers, table)}
    if head is None:  # bare encoders have no prefix
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    task_type = next((name for name, its_ending in TASK_TYPES.items() if its_ending == ending), None)
    values = {
        "peft_type": "LORA",
        "task_type": task_type,
        "auto_mapping": None if task_type else {"base_model_class": architecture, "parent_library": "transformers"},
        **_named_base(base),
        "r": layers[0].lora_rank,
        "lora_alpha": layers[0].lora_alpha,
        "target_modules": sorted({name.rpartition(".lora_")[0] for name in tensors if ".lora_" in name}),
        # The parts of the model: pooler, classifier.
        "modules_to_save": sorted({name.removeprefix(prefix).split(".")[0] for name in whole}) or None,
        "inference_mode": True,
    }
    _write_folder(path, values, tensors, checkpoint, architecture)


def _named_base(base: str) -> dict[str, str | None]:
    """Returns the settings that name a base model: a folder, or a name of the hub with its revision."""
    if not base.startswith(HUB_PREFIX):
        return {"base_model_name_or_path": base, "revision": None}
    name, _, revision = base.removeprefix(HUB_PREFIX).partition("@")
    return {"base_model_name_or_path": name, "revision": revision or None}


def _write_folder(
    path: str | os.PathLike,
    values: Mapping[str, Any],
    tensors: Mapping[str, StoredTensor],
    checkpoint: BertCheckpoint,
    architecture: str,
) -> None:
    """Writes the settings and the tensors of an adapter, and what a base model cannot say: labels and tokenizer."""
    with atomic_folder(path) as folder:
        write_json(os.path.join(folder, ADAPTER_FILE), values)
        write_json(os.path.join(folder, CONFIG_FILE), config_values(checkpoint, architecture))
        with atomic_file(os.path.join(folder, ADAPTER_WEIGHTS)) as file:
            write_safetensors(file, {PREFIX + name: tensor for name, tensor in tensors.items()}, {"format": "pt"})
        if checkpoint.tokenizer is not None:
            write_tokenizer(folder, checkpoint.tokenizer, checkpoint.config)
        write_tasks(checkpoint, folder)


def _head_of(checkpoint: BertCheckpoint) -> str | None:
    """Returns the head of a model that PEFT can adapt, None for an encoder. Raises `InputError` for other models."""
    config, known = checkpoint.config, heads()
    head = next((name for name in checkpoint.heads if name in known and known[name].hugging_face), None)
    others = [name for name in checkpoint.heads if name not in (head, form.SENTENCE_HEAD)]
    if config.family.hugging_face is None or others:
        raise InputError(
            f"save_adapter: adapters have no place for {', '.join(others) or f'the family {config.model_type}'}. "
            "model.save_pretrained(path, format='huggingface') writes the merged model."
        )
    return head


def _matrices(model, layers: list, table: NameTable) -> dict[str, StoredTensor]:
    """Returns the two matrices of each layer with LoRA, by their names there."""
    names = {id(weight): name for name, weight in model_weights(model).items()}
    found = {}
    for layer in layers:
        ours = names[id(layer._kernel)]
        theirs, layout = table.theirs(ours) or ("", None)
        if layout != TRANSPOSED and not isinstance(layout, Reordered):
            raise InputError(f"save_adapter: transformers has no linear layer for {ours}, so PEFT cannot adapt it.")
        a, b = (
            StoredTensor.of(np.asarray(keras.ops.convert_to_numpy(weight), np.float32))
            for weight in (layer.lora_kernel_a, layer.lora_kernel_b)
        )
        module = theirs.removesuffix(".weight")
        found[f"{module}.lora_A.weight"] = to_theirs(a, TRANSPOSED)
        found[f"{module}.lora_B.weight"] = to_theirs(b, layout)
    return found
