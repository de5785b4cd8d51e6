"""What a loaded export of a `MaskedLM` can do beside answering texts: limits of earlier SavedModels, and evaluation."""

from collections.abc import Mapping
from typing import Any

from keras_bert.program.errors import InputError


class LoadedMaskedLM:
    """Methods of loaded exports of a `MaskedLM`, or of the masked-LM part of a `BertPretrainer`."""

    def __init__(self, folder, engine, runtime):
        super().__init__(folder, engine, runtime)
        # SavedModels of earlier versions answer with the probabilities of their `top_k` tokens only.
        self._has_all_tokens = getattr(engine, "has_raw_outputs", True)

    def _on_texts(self) -> Any:
        from keras_bert.tasks.masked_lm import task

        return task

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        *,
        max_seq_length: int | None = None,
        top_k: int | None = None,
        targets: Any = None,
        joint: bool = False,
        **unknown: Any,
    ) -> list:
        """Returns a `FilledText` with the most probable tokens for each [MASK] of a text.

        SavedModels of earlier versions have the probabilities of their `top_k` tokens only.

        Args:
            x: texts with [MASK].
            batch_size: texts computed at once, 32 by default.
            verbose: is ignored.
            max_seq_length: longer texts are cut to this many tokens; None for the length of the export.
            top_k: the number of tokens for each mask; None for that of the SavedModel, or 5.
            targets, joint: as for `fill_masks`.
            **unknown: refused.
        """
        if not self._has_all_tokens and (targets is not None or (top_k or 0) > self.top_k):
            raise InputError(
                f"This SavedModel was exported with top_k={self.top_k} by an earlier version and has no probabilities "
                "of other tokens. Export the model again."
            )
        options = {"top_k": (self.top_k or 5) if top_k is None else top_k, "targets": targets, "joint": joint}
        arguments = {"batch_size": batch_size, "verbose": verbose, "max_seq_length": max_seq_length}
        return self._predict(x, {**arguments, **options}, unknown)

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        *,
        sample_weight: Any = None,
        callbacks: Any = None,
        return_dict: bool = True,
        max_seq_length: int | None = None,
        skip_missing: bool = False,
        masking: Mapping[str, object] | None = None,
        seed: int = 12345,
        **unknown: Any,
    ) -> dict[str, float] | list[float]:
        """Returns loss, masked_lm_accuracy and perplexity on texts; the arguments are those of `MaskedLM.evaluate`."""
        if not self._has_all_tokens:
            raise InputError(
                "This SavedModel of an earlier version has the probabilities of few tokens only. Export it again."
            )
        arguments = {"y": y, "batch_size": batch_size, "verbose": verbose, "sample_weight": sample_weight}
        arguments |= {"callbacks": callbacks, "return_dict": return_dict, "skip_missing": skip_missing}
        arguments |= {"masking": masking, "seed": seed, "max_seq_length": max_seq_length}
        return self._evaluate(x, arguments, unknown)
