"""The options of the search for a target. Nothing here imports Keras, so that `--help` is quick."""

import dataclasses

from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import documented, option


@documented
@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """The options of a search.

    Attributes:
        num_answers: the number of best hypotheses to return, at most `num_beams`.

    Raises:
        InputError: a number is out of range.
    """

    num_beams: int = option(4, "Hypotheses that are continued for each source; 1 for greedy search.")
    max_new_tokens: int = option(64, "The largest number of written tokens, the end token included.")
    min_new_tokens: int = option(0, "The end token is not written before this many tokens.")
    length_penalty: float = option(
        1.0, "Scores are divided by the length to this power; above 0 it favours long answers."
    )
    num_answers: int = 1

    def __post_init__(self):
        for name, lowest in (("num_beams", 1), ("max_new_tokens", 1), ("min_new_tokens", 0), ("num_answers", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
                raise InputError(f"{name} must be a whole number from {lowest}. Received: {value!r}")
        if self.min_new_tokens >= self.max_new_tokens:
            raise InputError(
                f"min_new_tokens must be below max_new_tokens={self.max_new_tokens}. Received: {self.min_new_tokens}"
            )
        if self.num_answers > self.num_beams:
            raise InputError(
                f"num_answers must be at most num_beams={self.num_beams}. Received: {self.num_answers}. Use more beams."
            )
