"""The tasks of GLUE by name: files, columns and labels of the official download, see gluebenchmark.com/tasks."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

from data_prep.finetuning.tables import Column
from keras_bert.program.errors import InputError

_YES_NO = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_THREE_WAY = ("contradiction", "entailment", "neutral")

_FILES = {"train": ("train.tsv",), "eval": ("dev.tsv",), "predict": ("test.tsv",)}
_MNLI_FILES = {
    "train": ("train.tsv",),
    "eval": ("dev_matched.tsv",),
    "eval_mismatched": ("dev_mismatched.tsv",),
    "predict": ("test_matched.tsv",),
    "predict_mismatched": ("test_mismatched.tsv",),
}
# MRPC's original files have no dev set; their test set has labels.
_MRPC_FILES = {
    "train": ("train.tsv", "msr_paraphrase_train.txt"),
    "eval": ("dev.tsv", "msr_paraphrase_test.txt"),
    "predict": ("test.tsv",),
}


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """The columns of files with labels, the labels, and what differs from the other tasks."""

    text: Column
    second_text: Column | None = None
    label: Column | None = "label"
    labels: tuple[str, ...] = _YES_NO  # in the order of their ids; empty for a regression
    has_header: bool = True  # whether files with labels name their columns. Files without labels always do
    predict_text: Column | None = None  # the text column of files without labels, if it differs
    files: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=lambda: _FILES)  # part -> possible names
    # The names in Hugging Face and tensorflow_datasets, in the order of their numbers there -> the official names.
    hub_labels: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def kind(self) -> str:
        return "classification" if self.labels else "regression"

    def columns(self, part: str) -> dict:
        """Returns the column arguments of `read_labelled_text` for "train", "eval..." or "predict..."."""
        is_labelled = not part.startswith("predict")
        return {
            "text_column": self.text if is_labelled or self.predict_text is None else self.predict_text,
            "second_text_column": self.second_text,
            "label_column": self.label if is_labelled else None,
            "has_header": self.has_header or not is_labelled,
        }

    def official_labels(self, labels: Sequence[str]) -> list[str]:
        """Returns the official names of labels that may be names or numbers of Hugging Face.

        >>> GLUE_TASKS["RTE"].official_labels(["entailment", "1"]), GLUE_TASKS["SST-2"].official_labels(["positive"])
        (['entailment', 'not_entailment'], ['1'])
        """
        numbers = {str(number): official for number, official in enumerate(self.hub_labels.values())}
        return [
            label if label in self.labels else self.hub_labels.get(label, numbers.get(label, label)) for label in labels
        ]

    def find_files(self, data_dir: str | os.PathLike) -> dict[str, str]:
        """Returns part -> path, for each part whose file is in a folder. Raises `InputError` if there is none."""
        found = {}
        for part, names in self.files.items():
            paths = (os.path.join(data_dir, name) for name in names)
            if path := next(filter(os.path.isfile, paths), None):
                found[part] = path
        if not found:
            names = ", ".join(name for names in self.files.values() for name in names)
            raise InputError(f"{os.fspath(data_dir)} has none of the task's files: {names}")
        return found


def _names(no: str, yes: str) -> Mapping[str, str]:
    return {no: "0", yes: "1"}


_ENTAILMENT_AT_HUB = {label: label for label in _ENTAILMENT}
_THREE_WAY_AT_HUB = {label: label for label in ("entailment", "neutral", "contradiction")}

GLUE_TASKS = {
    "CoLA": GlueTask(
        3, label=1, has_header=False, predict_text="sentence", hub_labels=_names("unacceptable", "acceptable")
    ),
    "SST-2": GlueTask("sentence", hub_labels=_names("negative", "positive")),
    "MRPC": GlueTask(
        "#1 String", "#2 String", "Quality", files=_MRPC_FILES, hub_labels=_names("not_equivalent", "equivalent")
    ),
    "QQP": GlueTask("question1", "question2", "is_duplicate", hub_labels=_names("not_duplicate", "duplicate")),
    "STS-B": GlueTask("sentence1", "sentence2", "score", labels=()),
    "MNLI": GlueTask(
        "sentence1", "sentence2", "gold_label", labels=_THREE_WAY, files=_MNLI_FILES, hub_labels=_THREE_WAY_AT_HUB
    ),
    "QNLI": GlueTask("question", "sentence", labels=_ENTAILMENT, hub_labels=_ENTAILMENT_AT_HUB),
    "RTE": GlueTask("sentence1", "sentence2", labels=_ENTAILMENT, hub_labels=_ENTAILMENT_AT_HUB),
    "WNLI": GlueTask("sentence1", "sentence2", hub_labels=_names("not_entailment", "entailment")),
    "AX": GlueTask(
        "sentence1",
        "sentence2",
        label=None,
        labels=_THREE_WAY,
        files={"predict": ("diagnostic.tsv", "AX.tsv", "test.tsv")},
    ),
}


def find_task(name: str) -> tuple[str, GlueTask]:
    """Returns the official name of a task, and the task. Raises `InputError` if there is none.

    >>> find_task("sst2")[0]  # case, hyphens and underscores do not matter
    'SST-2'
    """
    for official, task in GLUE_TASKS.items():
        if _plain(name) == _plain(official):
            return official, task
    raise InputError(f"task_name must be a task of GLUE: {', '.join(GLUE_TASKS)}. Received: {name!r}")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
