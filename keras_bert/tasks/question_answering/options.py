"""The options of runs on questions and contexts. Nothing here imports TensorFlow, so that `--help` is quick."""

import dataclasses
from typing import Any

from keras_bert.program.options import Options, documented, option


@documented
@dataclasses.dataclass(frozen=True)
class QuestionAnsweringOptions(Options):
    """The options for questions and contexts. None stands for the model's own value."""

    version_2_with_negative: bool = option(False, "Whether some questions have no answer, as in SQuAD 2.0.")
    null_threshold: float | None = option(
        None,
        "No answer is given if its score exceeds the best answer's by more than this. Default: that of the model, at "
        "first 0.0.",
        flag="null_score_diff_threshold",
    )
    doc_stride: int | None = option(
        None, "Tokens between the starts of two windows. Default: that of the model, initially 128.", at_least=1
    )
    max_query_length: int | None = option(
        None, "Longer questions are cut to this many tokens. Default: that of the model, initially 64.", at_least=1
    )
    n_best_size: int = option(20, "The number of answers in nbest_predictions.json.", at_least=1)
    max_answer_length: int = option(30, "The largest number of tokens in an answer.", at_least=1)

    def model_arguments(self) -> dict[str, Any]:
        """Returns the options that the model's constructor takes."""
        threshold = 0.0 if self.version_2_with_negative and self.null_threshold is None else self.null_threshold
        values = {
            "null_threshold": threshold,
            "doc_stride": self.doc_stride,
            "max_query_length": self.max_query_length,
        }
        return {name: value for name, value in values.items() if value is not None}
