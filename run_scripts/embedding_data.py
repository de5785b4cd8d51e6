"""The data sets of `run_embeddings`: their columns, and the loss of each."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.json_files import checked, read_json
from keras_bert.program.option_flags import option, whole_numbers
from keras_bert.tasks.embedding.loss_table import LOSSES, Loss, loss_of_name
from keras_bert.tasks.ranking.loss_table import RANKING_LOSSES

_OF_LOSSES = ("temperature", "symmetric", "margin", "teacher", "guide")
# The types of an option in a JSON file; all others are strings.
_TYPES: dict[str, Any] = {"symmetric": bool, "text_columns": list, "matryoshka_dimensions": list}
_TYPES |= dict.fromkeys(("score_scale", "temperature", "margin"), (int, float))


@dataclasses.dataclass(frozen=True)
class DataSet:
    """The columns of a data set, and its loss."""

    text_columns: Sequence[str] = option(
        dataclasses.MISSING,
        "The columns of the texts, by name or number from 0: anchor, positive, hard negatives; or one column.",
    )
    score_column: str | None = option(
        None,
        "The column with the similarity of each pair. For more texts, with a list: a score for each text after the "
        "first, or by how much that of the second exceeds those of the others.",
    )
    score_scale: float = option(1.0, "Scores are divided by this number, such as 5 for scores from 0 to 5.")
    label_column: str | None = option(None, "The column with the label of each text.")
    loss: str | None = option(None, "The loss, see above. Default: chosen by the columns.")
    temperature: float | None = option(None, "Divides cosines or scores, in losses that have a temperature.")
    symmetric: bool | None = option(None, "in_batch_negatives: whether positives must find their anchors too.")
    margin: float | None = option(None, "The margin of losses that have one.")
    teacher: str | None = option(
        None, "A teacher for losses that take one: the folder of a CrossEncoder or SentenceEncoder."
    )
    guide: str | None = option(None, "The guide of gist_embed: the folder of a SentenceEncoder.")
    matryoshka_dimensions: Sequence[int] | None = option(
        None,
        "Train these prefixes of the vectors too, such as 384,128,64.",
        read=whole_numbers("matryoshka_dimensions"),
    )

    def read(self, path: str, *, with_labels: bool, has_header: bool, skip_missing: bool) -> Any:
        """Returns the `SentenceExamples` of a file."""
        from data_prep.finetuning.complete_rows import complete_rows
        from data_prep.finetuning.tables import read_rows
        from keras_bert.tasks.embedding.examples import SentenceExamples

        score_column, label_column = (self.score_column, self.label_column) if with_labels else (None, None)

        def scores_of(row):
            if len(self.text_columns) < 3:
                return row.number(score_column) / self.score_scale
            return [score / self.score_scale for score in row.numbers(score_column)]

        def values(row):
            texts = [row.text(name) for name in self.text_columns]
            score = scores_of(row) if score_column else None
            return *texts, score, row.label(label_column) if label_column else None

        found = complete_rows(path, read_rows(path, has_header=has_header), values, skip_missing=skip_missing)
        *columns, scores, labels = zip(*found, strict=True) if found else ((), (), ())
        scores, labels = (None if None in column else list(column) for column in (scores, labels))
        return SentenceExamples(list(map(list, columns)), scores, labels, source=path)

    def made_loss(self, is_ranking: bool) -> Any:
        """Returns the loss of a `CrossEncoder` or a `SentenceEncoder`; None for that of the columns.

        Raises:
            InputError: the loss is unknown, or has no such option.
        """
        given = {name: getattr(self, name) for name in _OF_LOSSES if getattr(self, name) is not None}
        name = self.loss
        if name is None and (given or self.matryoshka_dimensions):
            name = self._usual_loss(is_ranking)
        if name is None:
            return None
        loss_class = loss_of_name(
            *((RANKING_LOSSES, "a RankingLoss") if is_ranking else (LOSSES, "an EmbeddingLoss")), name
        )
        known = {field.name for field in dataclasses.fields(loss_class) if field.init}
        wrong = next((option for option in given if option not in known), None)
        if wrong:
            raise InputError(f"The loss {name} has no --{wrong}. Leave it out, or give another --loss.")
        if not self.matryoshka_dimensions:
            return loss_class(**given)
        from keras_bert.tasks.embedding.losses import Matryoshka

        return Matryoshka(loss_class(**given), self.matryoshka_dimensions)

    def _usual_loss(self, is_ranking: bool) -> str:
        if is_ranking:
            return "binary_cross_entropy" if self.score_column else "cross_entropy"
        return "cosent" if self.score_column else "label_triplets" if self.label_column else "in_batch_negatives"


def data_sets_of_file(path: str) -> list[tuple[str, DataSet]]:
    """Returns the file with examples and the `DataSet` of each object in a JSON list.

    Raises:
        InputError: the file is no such list, or a name or a value in it is wrong.
    """
    known = ["train_file", *(field.name for field in dataclasses.fields(DataSet))]
    found = []
    for number, given in enumerate(checked(read_json(path), list, "the file", path), start=1):
        where = f"{path}: data set {number}"
        values = dict(checked(given, dict, "it", where))
        for name, value in values.items():
            if name not in known:
                raise InputError(f"{where}: there is no {name!r:.100}. Possible are: {', '.join(known)}")
            if not isinstance(value, _TYPES.get(name, str)) or isinstance(value, bool) != (name == "symmetric"):
                raise InputError(f"{where}: the value of {name} is not valid. Received: {value!r:.100}")
        if not values.get("train_file") or not values.get("text_columns"):
            raise InputError(f"{where}: it must have a train_file and text_columns.")
        found.append((values.pop("train_file"), DataSet(**values)))
    return found


def loss_lines() -> str:
    """Returns a line for each loss: its name, and what it needs."""

    def lines(table: Mapping[str, Loss]) -> list[str]:
        return [f"    {name:<22}{entry.needs}" for name, entry in table.items()]

    return "\n".join(
        ["The losses of --loss need:", "", *lines(LOSSES), "", "With --cross_encoder:", "", *lines(RANKING_LOSSES)]
    )
