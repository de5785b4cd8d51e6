"""Masks records without masks while they are read, so that every epoch has new masks."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from keras_bert.program.errors import InputError
from keras_bert.program.options import check_number
from keras_bert.records import features
from keras_bert.records.form import RecordForm
from keras_bert.records.masked_positions import MaskingOptions
from keras_bert.records.masking import MaskingVocabulary, mask_batch
from keras_bert.tokenization.tokenizer import TokenTable

# [CLS] token [SEP]
_SHORTEST_SEQUENCE = 3
# The features that `_draw` returns, in this order, with the dtypes of parsed records.
_MASKED = {
    features.INPUT_IDS: tf.int32,
    features.MASKED_LM_POSITIONS: tf.int32,
    features.MASKED_LM_IDS: tf.int32,
    features.MASKED_LM_WEIGHTS: tf.float32,
}


@dataclasses.dataclass(frozen=True)
class FallingRate:
    """A share of masked tokens that falls linearly over a run, from `masked_lm_prob` to `end`.

    Reference: Yang et al., 2023, arXiv 2208.10806, section 4.1 (masking ratio decay).
    """

    end: float  # the share at the end of the run, above 0
    num_steps: int  # the number of updates of the run; later updates have the share `end`
    first_step: int = 0  # the number of updates before the first batch of the dataset

    def at(self, start: float, number: int) -> float:
        """Returns the share of batch `number` of the dataset, if the run starts with the share `start`."""
        return self.end + (start - self.end) * max(0.0, 1.0 - (self.first_step + number) / self.num_steps)


class DynamicMasking:
    """Masks batches with the code of `create_pretraining_data`, so masks have the same distribution.

    Each batch has its own generator, seeded by the seed and the number of the batch. So the same seed gives the same
    masks, a resumed run has the masks of an undisturbed one, and a record gets new masks every time it is read.

    NumPy does the work (`tf.numpy_function`) on the host, in the process that made the dataset. So the dataset cannot
    be saved or sent to the workers of a tf.data service.

    Args:
        form, vocabulary: those of the records, which have no masks.
        options: name -> value: fields of `MaskingOptions`, and `replacement_tokens` (see `MaskingVocabulary.of`). The
            default of `max_predictions_per_seq` is large enough for all sequences of a row.
        seed: any integer.
        falling_rate: how `masked_lm_prob` falls; None: it stays.

    Raises:
        InputError: an option is unknown or out of range, or the rate would rise.
    """

    def __init__(
        self,
        form: RecordForm,
        vocabulary: TokenTable,
        options: Mapping[str, object],
        seed: int,
        falling_rate: FallingRate | None = None,
    ):
        options = dict(options)
        replacement_tokens = options.pop("replacement_tokens", "text")
        self.options = _masking_options(options, form)
        self._vocabulary = MaskingVocabulary.of(vocabulary, replacement_tokens)
        self._is_special = np.zeros(len(vocabulary), bool)
        self._is_special[[vocabulary.pad_id, vocabulary.cls_id, vocabulary.sep_id]] = True
        self._seed = seed % 2**64
        self._falling_rate = falling_rate
        if falling_rate:
            check_number("masked_lm_prob_end", falling_rate.end, above=0, at_most=self.options.masked_lm_prob)

    def apply(self, batches: tf.data.Dataset, start_step: int = 0) -> tf.data.Dataset:
        """Masks a dataset of parsed records: dicts name -> int32 tensor `(batch, length)`.

        Call `repeat` before masking, since each batch has its own number, from `start_step` on, and so its own masks.

        Returns:
            the dataset with masked `input_ids`, and with `masked_lm_positions`, `masked_lm_ids` (int32) and
            `masked_lm_weights` (float32), `(batch, max_predictions_per_seq)`.
        """
        return batches.enumerate(start_step).map(self._mask, num_parallel_calls=tf.data.AUTOTUNE)

    def _mask(self, number: tf.Tensor, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        rows = batch[features.INPUT_IDS], batch[features.INPUT_MASK]
        masked = tf.numpy_function(self._draw, [number, *rows], list(_MASKED.values()))
        masked = dict(zip(_MASKED, masked, strict=True))
        for name, values in masked.items():
            length = rows[0].shape[1] if name == features.INPUT_IDS else self.options.max_predictions_per_seq
            values.set_shape([rows[0].shape[0], length])
        return batch | masked

    def _draw(self, number: np.ndarray, input_ids: np.ndarray, input_mask: np.ndarray) -> list[np.ndarray]:
        if input_ids.min() < 0 or input_ids.max() >= len(self._is_special):
            raise InputError(
                f"The records hold the token {input_ids.min() if input_ids.min() < 0 else input_ids.max()}, but the "
                f"vocabulary has {len(self._is_special)} tokens. Use the vocabulary that the records were made with."
            )
        is_text = (input_mask > 0) & ~self._is_special[input_ids]
        rng = np.random.Generator(np.random.PCG64([self._seed, int(number)]))
        options = self.options
        if self._falling_rate:
            share = self._falling_rate.at(options.masked_lm_prob, int(number))
            options = dataclasses.replace(options, masked_lm_prob=share)
        masked = mask_batch(input_ids, is_text, input_mask, options, self._vocabulary, rng)
        return [masked[name] for name in _MASKED]


def _masking_options(options: Mapping[str, object], form: RecordForm) -> MaskingOptions:
    known = [field.name for field in dataclasses.fields(MaskingOptions)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InputError(
            f"Masking has no option {unknown[0]}. Use one of: {', '.join([*known, 'replacement_tokens'])}."
        )
    if options.get("max_predictions_per_seq") is not None:
        return MaskingOptions(**options)
    options = MaskingOptions(**{**options, "max_predictions_per_seq": 1})
    share = options.masked_lm_prob
    needed = round(share * form.max_seq_length)
    if form.max_sequences_per_row > 1:
        # The number of masks is rounded for each sequence: up by a half at most, but for the shortest up to 1.
        most_rounded_up = max(0.5, 1.0 - share * _SHORTEST_SEQUENCE)
        needed = math.ceil(share * form.max_seq_length + form.max_sequences_per_row * most_rounded_up)
    return dataclasses.replace(options, max_predictions_per_seq=max(1, needed))
