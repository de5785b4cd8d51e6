"""What a loaded export of a `MaskedLM` can do beside answering texts: the options of its methods, and evaluation."""

from collections.abc import Mapping
from typing import Any, ClassVar

from keras_bert.tasks.masked_lm.answers import best_tokens
from keras_bert.tasks.masked_lm.mask_filling import mask_arrays
from keras_bert.tasks.masked_lm.mask_scoring import score_masks
from keras_bert.tasks.masked_lm.masked_texts import masked_rows
from keras_bert.tasks.served_values import padded

_TOP_K = 5


class LoadedMaskedLM:
    """Methods of loaded exports of a `MaskedLM`, or of the masked-LM part of a `BertPretrainer`."""

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

        Args:
            x: texts with [MASK].
            batch_size: texts computed at once, 32 by default.
            verbose: is ignored.
            max_seq_length: longer texts are cut to this many tokens; None for the length of the export.
            top_k: the number of tokens for each mask; None for that of the SavedModel, or 5.
            targets, joint: as for `fill_masks`.
            **unknown: refused.
        """
        options = {"top_k": (self.top_k or _TOP_K) if top_k is None else top_k, "targets": targets, "joint": joint}
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
        arguments = {"y": y, "batch_size": batch_size, "verbose": verbose, "sample_weight": sample_weight}
        arguments |= {"callbacks": callbacks, "return_dict": return_dict, "skip_missing": skip_missing}
        arguments |= {"masking": masking, "seed": seed, "max_seq_length": max_seq_length}
        return self._evaluate(x, arguments, unknown)

    served_inputs: ClassVar = {"text": ()}

    @property
    def served_outputs(self) -> dict[str, tuple]:
        top_k = self.top_k or _TOP_K
        return {"positions": (-1, None), "tokens": ("", None, top_k), "probabilities": (0.0, None, top_k)}

    def serve(self, text: list[str]) -> dict[str, Any]:
        """See `AnswerSignature`. Masks that are cut off have no entries."""
        rows = masked_rows(text, self.tokenizer, self.max_seq_length, check=False)
        masked, top_k = [row for row in rows if len(row.positions)], self.top_k or _TOP_K
        ids, positions = [row.ids for row in masked], [row.positions for row in masked]
        best = score_masks(self, ids, positions, lambda _, scores: best_tokens(scores, top_k)) if masked else []
        columns = mask_arrays(masked, best, self.vocabulary.tokens)
        of_masked = iter(zip(*(columns[name] for name in self.served_outputs), strict=True))
        found = [list(zip(*next(of_masked), strict=True)) if len(row.positions) else [] for row in rows]
        return padded(found, self.served_outputs)
