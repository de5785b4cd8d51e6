"""What the model card of a run says about its training: the command, the sizes of the data, the scores."""

import os
from collections.abc import Mapping

from keras_bert.checkpoints.model_card import CARD_FILE, set_training_section
from keras_bert.program.command_line import running_command
from keras_bert.program.json_files import read_json_object, write_json
from keras_bert.program.printing import markdown, printable, recordable
from keras_bert.training.strategies import is_chief

FACTS_FILE = "facts.json"
_LONGEST_COMMAND = 4000
_LONGEST_NAME = 100


def write_facts(folder: str, **sizes: int | None) -> None:
    """Writes `facts.json` into the folder of a run: the running command, without secrets of URLs, and sizes of data,
    such as `train_examples`; None is left out."""
    if not is_chief():
        return
    facts = {"command": running_command(), **{name: size for name, size in sizes.items() if size is not None}}
    write_json(os.path.join(folder, FACTS_FILE), recordable(facts))


def write_training_section(folder: str, model_folder: str, scores: Mapping[str, float]) -> None:
    """Writes the section on a run's training into the card in its model folder, in place of the one that it may have.

    A card whose author has changed its headings stays as it is. Without a model folder, nothing happens.
    """
    if not os.path.isfile(os.path.join(model_folder, CARD_FILE)):
        return
    path = os.path.join(folder, FACTS_FILE)
    facts = read_json_object(path) if os.path.isfile(path) else {}  # nothing was trained in the folder
    command = facts.pop("command", None)
    lines = []
    if command:
        shown = printable(command, _LONGEST_COMMAND).replace("`", "\ufffd")
        lines += ["```sh", shown, "```", ""]
    rows = {name.replace("_", " "): f"{value:,}" for name, value in facts.items() if isinstance(value, int)}
    for name, value in scores.items():
        number = f"{value:,.0f}" if name == "global_step" else f"{value:.4f}"
        rows[markdown(name, _LONGEST_NAME)] = number
    if rows:
        lines += ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items()), ""]
    if lines:
        set_training_section(model_folder, lines, has_scores=bool(scores))
