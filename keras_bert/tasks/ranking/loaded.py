"""What a loaded export of a `CrossEncoder` can do beside answering texts."""

from typing import ClassVar

import numpy as np

from keras_bert.records import features
from keras_bert.tasks.embedding.examples import SentenceExamples
from keras_bert.tasks.prompts import Prompts


class LoadedCrossEncoder(Prompts):
    """Methods of loaded exports of a `CrossEncoder`."""

    labels = ("score",)
    problem_type = "regression"

    def __init__(self, folder, engine, runtime):
        super().__init__(folder, engine, runtime)
        self.check_prompts()
        run = self.engine.run
        # As the Keras model: `[B, 1]` for `[B, S]`, and `[B, C]` for `[B, C, S]`.
        self.engine.run = lambda given: _without_last_axis(run(given), np.ndim(given[features.INPUT_IDS]))

    served_inputs: ClassVar = {"text": (), "text_b": ()}
    served_outputs: ClassVar = {"score": (0.0,)}

    def serve(self, text: list[str], text_b: list[str]) -> dict[str, np.ndarray]:
        """See `AnswerSignature`."""
        return {"score": self.answered(SentenceExamples([text, text_b], source="the texts"))}

    def rank(
        self, query: str, texts, top_k: int | None = None, batch_size: int = 32, prompt: str | None = None
    ) -> list:
        """Returns a `RankedText` for each of the best texts for a query; see `CrossEncoder.rank`."""
        from keras_bert.tasks.ranking.task import rank

        return rank(self, query, texts, top_k, batch_size, prompt)


def _without_last_axis(scores: np.ndarray, num_axes: int) -> np.ndarray:
    return scores if num_axes == 2 else scores[..., 0]
