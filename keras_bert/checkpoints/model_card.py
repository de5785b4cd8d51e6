"""Writes a model card: a README.md that says what a model is, how to use it, and what its author must add."""

import json
import math
import os
from collections.abc import Mapping

from keras_bert import registry
from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.checkpoints.model_classes import class_for
from keras_bert.config import BertConfig
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.printing import markdown, printable

CARD_FILE = "README.md"
_MOST_LABELS = 20
_LONGEST_LABEL = 100
_TRAINING = "## Training"
_LAST = "## To add before you publish it"
_TO_ADD_SCORES = "* scores on held-out data, with the command that computes them"


def write_model_card(checkpoint: BertCheckpoint, folder: str) -> None:
    """Writes `README.md` into an existing folder, in the form of the Hugging Face hub.

    Reference: Mitchell et al., 2019, "Model Cards for Model Reporting".
    """
    model_class, arguments = class_for(checkpoint)
    used = registry.task_of(model_class)
    if used is None or used.example is None or used.model is None or registry.imported(used.model) is not model_class:
        used = registry.task("Encoder")
    module, _, used_class = (used.model or "keras_bert.Encoder").rpartition(".")
    is_ours = module.partition(".")[0] == "keras_bert"
    ask = used.example
    if checkpoint.vocabulary is not None:
        ask = ask.replace('"a [MASK]"', _as_code(f"a {checkpoint.vocabulary.special_tokens.mask}"))
    lines = [
        "---",
        "library_name: keras_bert",
        f"pipeline_tag: {used.hub_task}",
        "tags:",
        f"- {checkpoint.config.model_type}",
        "- keras",
        "---",
        "",
        f"# {model_class.__name__}",
        "",
        *_facts(checkpoint, arguments),
        "",
        "## Use",
        "",
        "```python",
        "import keras_bert" if is_ours else f"from {module} import {used_class}",
        *(["import numpy as np"] if "np." in ask else []),
        "",
        f'model = {"keras_bert." if is_ours else ""}{used_class}.from_pretrained("path/of/this/folder")',
        f"print({ask})",
        "```",
        "",
        _LAST,
        "",
        "* the licence of the weights, and the languages of the texts",
        "* the data that the model was trained on, and how",
        _TO_ADD_SCORES,
        "* for what it should be used and for what not; known errors and biases",
        "",
    ]
    with open(os.path.join(folder, CARD_FILE), "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def set_training_section(folder: str, lines: list[str], *, has_scores: bool) -> None:
    """Puts the Markdown `lines` about the training into the card of a folder, in place of those that it may have.

    A card without the last heading of `write_model_card` has been changed by its author and stays as it is. If the
    lines have scores, the author is not asked to add them.
    """
    path = os.path.join(folder, CARD_FILE)
    with open(path, encoding="utf-8", newline="") as file:
        before, last, after = file.read().partition(f"\n{_LAST}\n")
    if not last:
        return
    before = before.partition(f"\n{_TRAINING}\n")[0]
    if has_scores:
        after = after.replace(f"{_TO_ADD_SCORES}\n", "")
    section = "\n".join(["", _TRAINING, "", *lines])
    with atomic_file(path) as new:
        new.write((before + section + last + after).encode("utf-8"))


def _as_code(text: str) -> str:
    """Returns a text as a string of Python in ASCII, without the backquotes that would end the block of code."""
    return json.dumps(printable(text, _LONGEST_LABEL)).replace("`", "\\u0060")


def _facts(checkpoint: BertCheckpoint, arguments: Mapping) -> list[str]:
    config: BertConfig = checkpoint.config
    num_weights = sum(math.prod(tensor.shape) for tensor in checkpoint.tensors.values())
    facts = {
        "family": config.model_type,
        "weights": f"{num_weights:,}",
        "layers": f"{0 if config.is_static else config.num_hidden_layers} of width {config.hidden_size}",
        "longest row": f"{config.max_sequence_length} tokens",
        "vocabulary": f"{config.vocab_size:,} tokens",
    }
    if checkpoint.labels:
        shown = [markdown(label, _LONGEST_LABEL) for label in checkpoint.labels[:_MOST_LABELS]]
        more = len(checkpoint.labels) - len(shown)
        facts["labels"] = ", ".join(shown) + (f" and {more} more" if more else "")
    if "temperature" in arguments:
        facts["calibrated"] = f"by the temperature {arguments['temperature']:.4g}, on held-out texts"
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items())]
