"""Compares a converted checkpoint with the original: runs both on texts, by keras_bert and by their own libraries."""

import contextlib
import importlib.metadata
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from keras_bert.checkpoints import formats
from keras_bert.checkpoints.checkpoint import POOLER, BertCheckpoint, part_of
from keras_bert.checkpoints.hub import HUB_PREFIX, download
from keras_bert.config import BertConfig

TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "Returns a view of the array. The data isn't copied, so changes show up in both.",
    "Zürich, São Paulo and 北京 are cities; 3.14159 is a number.",
    "BERT",
)


def verify(input_path: str, output_path: str, texts=TEXTS, **reading) -> Iterator[str]:
    """Yields one line for each comparison, with the largest difference.

    The vectors of all tokens except padding are compared, the pooled outputs if both have a pooler, and with
    transformers also the token ids of the texts.

    Args:
        input_path, output_path: the original and the converted checkpoint.
        texts: the input texts. A checkpoint without a vocabulary is run on generated ids instead.
        **reading: `do_lower_case` and `trust_pickle`, as for reading the input.
    """
    sides = {"input": formats.read_checkpoint(input_path, **reading), "output": formats.read_checkpoint(output_path)}
    smallest = min(sides.values(), key=lambda checkpoint: checkpoint.config.max_sequence_length)
    features = _features(smallest, texts)
    ours = {side: _our_outputs(checkpoint, features) for side, checkpoint in sides.items()}
    has_pooler = all(any(part_of(name) == POOLER for name in checkpoint.tensors) for checkpoint in sides.values())
    names = ("sequence_output", "pooled_output") if has_pooler else ("sequence_output",)
    yield _line("input and output, both by keras_bert", ours["input"], ours["output"], names, features)
    for side, checkpoint in sides.items():
        for library, run in _libraries_for(checkpoint):
            try:
                version = importlib.metadata.version(library)
                folder = checkpoint.path
                folder = download(folder) if folder.startswith(HUB_PREFIX) else folder
                theirs, ids = run(folder, features, checkpoint.config, texts)
            except (ImportError, importlib.metadata.PackageNotFoundError) as error:
                yield f"{side} by {library}: not compared, because it is not installed here ({error})"
                continue
            yield _line(f"{side} by keras_bert and by {library} {version}", ours[side], theirs, names, features)
            if ids is not None and checkpoint.tokenizer is not None:
                ours_ids = [_ids(text, checkpoint) for text in texts]
                different = [text for text, one, other in zip(texts, ours_ids, ids, strict=True) if one != other]
                line = f"{side} by keras_bert and by {library}: the tokens of {len(texts) - len(different)} of "
                line += f"{len(texts)} texts are equal"
                yield f"{line}, not those of {different[0]!r}" if different else line


def _features(checkpoint: BertCheckpoint, texts) -> dict[str, np.ndarray]:
    """Returns a padded batch of the texts, the last one with a second segment."""
    config = checkpoint.config
    longest = min(64, config.max_sequence_length)
    rows = [_ids(text, checkpoint)[:longest] for text in texts]
    length = max(map(len, rows))
    input_ids = np.array([row + [0] * (length - len(row)) for row in rows], "int32")
    input_mask = np.array([[1] * len(row) + [0] * (length - len(row)) for row in rows], "int32")
    segment_ids = np.zeros_like(input_ids)
    if config.type_vocab_size > 1:
        segment_ids[:, length // 2 :] = input_mask[:, length // 2 :]
    return {"input_ids": input_ids, "input_mask": input_mask, "segment_ids": segment_ids}


def _ids(text: str, checkpoint: BertCheckpoint) -> list[int]:
    tokenizer: Any = checkpoint.tokenizer
    if tokenizer is None:
        return [ord(character) % checkpoint.config.vocab_size for character in text]
    return [tokenizer.cls_id, *tokenizer.encode(text), tokenizer.sep_id]


def _our_outputs(checkpoint: BertCheckpoint, features) -> dict[str, np.ndarray]:
    from keras_bert.checkpoints.pretrained import model_of
    from keras_bert.models.encoder_base import Encoder

    with contextlib.redirect_stdout(io.StringIO()):  # hides the report, which was printed before
        outputs = model_of(Encoder, checkpoint)(features)
    return {name: np.asarray(value) for name, value in outputs.items()}


def _libraries_for(checkpoint: BertCheckpoint) -> list[tuple[str, Callable]]:
    if checkpoint.kind.startswith("Hugging Face"):
        return [("transformers", _run_transformers)]
    return [("keras-hub", _run_keras_hub)] if checkpoint.kind.startswith("KerasHub") else []


def _run_transformers(folder: str, features, config: BertConfig, texts) -> tuple[dict[str, np.ndarray], list | None]:
    """Returns the outputs of transformers, and its token ids, None without a tokenizer. Raises `ImportError`."""
    names = {"input_ids": "input_ids", "attention_mask": "input_mask"}
    theirs = config.family.hugging_face
    features, columns = _with_first_token_last(features) if theirs.first_token_is_last else (features, None)
    if config.type_vocab_size > 1:
        names["token_type_ids"] = "segment_ids"
    with tempfile.TemporaryDirectory() as work:
        files = [os.path.join(work, name) for name in ("texts.json", "features.npz", "outputs.npz")]
        with open(files[0], "w", encoding="utf-8") as file:
            json.dump(list(texts), file)
        np.savez(files[1], **{theirs: features[ours] for theirs, ours in names.items()})
        program = [sys.executable, "-m", "keras_bert.checkpoints.transformers_outputs"]
        command = [*program, folder, f"{theirs.classes}Model", *files]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ImportError((done.stderr.strip().splitlines() or ["it ended without a message"])[-1])
        ids = json.loads(done.stdout.splitlines()[-1])["ids"]
        with np.load(files[2]) as outputs:
            outputs = dict(outputs)
        if theirs.first_token_is_last:
            outputs["sequence_output"] = np.take_along_axis(outputs["sequence_output"], columns[:, :, None], axis=1)
            ids = ids and [[*row[-1:], *row[:-1]] for row in ids]
        return outputs, ids


def _with_first_token_last(features) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns rows with the first token behind the last, in segment 2; and the new column of each old one."""
    is_first = np.arange(features["input_mask"].shape[1]) == 0
    features = features | {"segment_ids": np.where(is_first, 2, features["segment_ids"])}
    last = features["input_mask"].sum(axis=1, keepdims=True) - 1
    moved = np.arange(len(is_first))
    columns = np.where(is_first, last, np.where(moved <= last, moved - 1, moved))
    origins = np.argsort(columns, axis=1)
    return {name: np.take_along_axis(values, origins, axis=1) for name, values in features.items()}, columns


def _run_keras_hub(folder: str, features, config: BertConfig, texts) -> tuple[dict[str, np.ndarray], None]:
    import keras_hub

    names = {"token_ids": "input_ids", "padding_mask": "input_mask", "segment_ids": "segment_ids"}
    backbone = keras_hub.models.Backbone.from_preset(folder)
    taken = {tensor.name for tensor in backbone.inputs}
    outputs = backbone({theirs: features[ours] for theirs, ours in names.items() if theirs in taken})
    outputs = outputs if isinstance(outputs, dict) else {"sequence_output": outputs}
    return {name: np.asarray(value) for name, value in outputs.items()}, None


def _line(what: str, left, right, names, features) -> str:
    real = features["input_mask"] == 1
    found = []
    for name in names:
        one, other = (side[name][real] if name == "sequence_output" else side[name] for side in (left, right))
        found.append(f"{name} {np.abs(one - other).max():.1e}")
    return f"{what}: largest difference of {', '.join(found)}"
