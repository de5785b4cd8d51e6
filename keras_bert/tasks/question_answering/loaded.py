"""What a loaded export of a `SpanClassifier` can do beside answering texts: other options of its answers."""

from typing import Any


class LoadedSpanClassifier:
    """Methods of loaded exports of a `SpanClassifier`."""

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        *,
        callbacks: Any = None,
        max_seq_length: int | None = None,
        n_best_size: int = 20,
        max_answer_length: int = 30,
        null_threshold: float | None = None,
        **unknown: Any,
    ) -> list:
        """Returns a `FoundAnswer` for each question; the arguments are those of `SpanClassifier.predict`."""
        arguments = {"batch_size": batch_size, "verbose": verbose, "callbacks": callbacks}
        options = {"n_best_size": n_best_size, "max_answer_length": max_answer_length, "null_threshold": null_threshold}
        return self._predict(x, {**arguments, "max_seq_length": max_seq_length, **options}, unknown)
