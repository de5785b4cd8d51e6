"""The options of the search for a target. Nothing here imports Keras, so that `--help` is quick."""

import dataclasses

from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, documented, option


@documented
@dataclasses.dataclass(frozen=True)
class SearchOptions(Options):
    """The options of a search.

    Attributes:
        num_answers: the number of best hypotheses to return, at most `num_beams`.

    Raises:
        InputError: a number is out of range.
    """

    num_beams: int = option(4, "Hypotheses that are continued for each source; 1 for greedy search.", at_least=1)
    max_new_tokens: int = option(64, "The largest number of written tokens, the end token included.", at_least=1)
    min_new_tokens: int = option(0, "The end token is not written before this many tokens.", at_least=0)
    length_penalty: float = option(
        1.0, "Scores are divided by the length to this power; above 0 it favours long answers."
    )
    num_answers: int = option(1, at_least=1)

    def __post_init__(self):
        super().__post_init__()
        if self.min_new_tokens >= self.max_new_tokens:
            raise InputError(
                f"min_new_tokens must be below max_new_tokens={self.max_new_tokens}. Received: {self.min_new_tokens}"
            )
        if self.num_answers > self.num_beams:
            raise InputError(
                f"num_answers must be at most num_beams={self.num_beams}. Received: {self.num_answers}. Use more beams."
            )
