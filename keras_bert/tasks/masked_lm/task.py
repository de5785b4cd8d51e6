"""The task of `MaskedLM` on texts: trains with new random masks in every batch, and fills [MASK]."""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.number_checks import check_numbers
from keras_bert.program.user_inputs import as_texts, collect
from keras_bert.records import features
from keras_bert.records.masked_positions import MaskingOptions
from keras_bert.records.masking import MaskingVocabulary, mask_batch
from keras_bert.records.token_rows import (
    MaskedRows,
    RowBatches,
    TokenRows,
    batch_size_of,
    cut_overlapping,
    join_segments,
)
from keras_bert.tasks.answer_operations import log_softmax
from keras_bert.tasks.base import ExampleRows, TextTask, as_returned, text_task
from keras_bert.tasks.examples import complete_examples, first_held_out
from keras_bert.tasks.explanation.explained_rows import ExplainedRow, pieces_of_masked_row
from keras_bert.tasks.masked_lm.answers import FilledText, best_tokens
from keras_bert.tasks.masked_lm.mask_filling import check_masked_lm, fill_masks, mask_arrays, score_masks
from keras_bert.tasks.masked_lm.masked_texts import masked_rows, target_ids
from keras_bert.tasks.prediction import Calls, forward_function
from keras_bert.tasks.served_values import padded
from keras_bert.tasks.text_rows import token_lists, tokenizer_of
from keras_bert.tokenization.token_lists import TokenLists


class MaskedLMTask(TextTask):
    """Texts without labels: the masked tokens are the labels.

    A text that is longer than a row is split into several rows, so that no token is lost.
    """

    name = "masked_lm"
    main_score = "masked_lm_accuracy"
    may_be_blank = True

    def examples(self, x, y=None, sample_weight=None) -> list[str]:
        if y is not None or sample_weight is not None:
            raise InputError("A masked language model is trained on texts alone: give neither labels nor weights.")
        return as_texts(x)

    def predict(
        self,
        x,
        batch_size: int | None = None,
        *,
        verbose="auto",
        callbacks=None,
        max_seq_length: int | None = None,
        top_k: int | None = None,
        targets: Any = None,
        joint: bool = False,
    ) -> list[FilledText]:
        """Returns the most probable tokens for each [MASK] of texts; the arguments are those of `fill_masks`.

        `verbose` is ignored. `top_k` is None only for loaded exports: that of the SavedModel, or 5.
        """
        if callbacks is not None:
            raise InputError("predict on texts with [MASK] has no batches for callbacks. Leave callbacks out.")
        texts = as_texts(x)
        if not texts:
            return []
        options = {"targets": targets, "joint": joint, "max_seq_length": max_seq_length}
        top_k = (self.model.top_k or _TOP_K) if top_k is None else top_k
        return fill_masks(self.model, texts, top_k=top_k, batch_size=batch_size_of(batch_size), **options)

    def evaluate(
        self,
        x,
        y=None,
        batch_size: int | None = None,
        *,
        max_seq_length: int | None = None,
        masking: Mapping[str, object] | None = None,
        seed: int = 12345,
        skip_missing: bool = False,
        verbose="auto",
        callbacks=None,
        sample_weight=None,
        return_dict: bool = True,
    ) -> dict[str, float] | list[float]:
        """Returns `loss`, `masked_lm_accuracy` and `perplexity` on texts, masked at random by `seed`.

        The arguments are those of `MaskedLM.evaluate`. `verbose` is ignored.
        """
        check_masked_lm(self.model)
        _refuse_weights(sample_weight)
        rows = self.rows(_texts(self, x, y, skip_missing), max_seq_length).print_notes(sys.stderr).rows
        total = right = weight = 0.0
        calls, forward = Calls(self.model, callbacks, "test"), forward_function(self.model)
        calls.begin()
        for number, batch in enumerate(self.batches(rows, batch_size, masking, seed)):
            calls.batch_begin(number)
            outputs = forward(batch)
            logits = np.asarray(outputs["masked_lm_logits"], np.float32)
            check_numbers(logits, "row of a batch")
            scores = log_softmax(logits)
            labels, weights = batch[features.MASKED_LM_IDS], batch[features.MASKED_LM_WEIGHTS]
            total -= float(np.sum(np.take_along_axis(scores, labels[:, :, None], axis=2)[:, :, 0] * weights))
            right += float(np.sum((scores.argmax(axis=2) == labels) * weights))
            weight += float(weights.sum())
            calls.batch_end(number, outputs)
        loss = total / weight
        scores = {"loss": loss, "masked_lm_accuracy": right / weight, "perplexity": float(np.exp(loss))}
        calls.end(scores)
        return as_returned(scores, return_dict)

    def rows(self, examples: list[str], max_seq_length: int | None = None) -> ExampleRows:
        length, vocabulary = self.checked_length(max_seq_length), self.tokenizer.vocabulary
        room = length - vocabulary.special_tokens.num_special(1)
        ids, lengths = token_lists(examples, self.tokenizer.tokenize)
        num_cut, num_empty = int((lengths > room).sum()), int((lengths == 0).sum())
        if num_empty == len(examples):
            raise InputError(
                f"At least one text must have a token to mask. Received: {len(examples)} texts without tokens."
            )
        parts, _ = cut_overlapping(TokenLists(ids, lengths[lengths > 0]), room, room)
        rows, _ = join_segments([parts], length, vocabulary)
        notes = [f"{num_cut} of {len(examples)} texts are longer than {length} tokens and were split into several rows"]
        notes += [f"{num_empty} of {len(examples)} texts are empty and are left out"]
        return ExampleRows(rows, [note for note, count in zip(notes, (num_cut, num_empty), strict=True) if count])

    def rows_to_explain(self, examples: list[str], targets, max_seq_length, batch_size):
        """Explains the logit of a token in place of the first [MASK] of each text; by default of the likeliest."""
        check_masked_lm(self.model)
        tokenizer = self.model.tokenizer
        masked = masked_rows(examples, self.tokenizer, self.checked_length(max_seq_length))
        ids, columns = [row.ids for row in masked], [row.positions for row in masked]
        tokens = score_masks(self.model, ids, columns, lambda _, scores: int(scores[0].argmax()), batch_size)
        explained = []
        for number, (row, target) in enumerate(zip(masked, targets, strict=True)):
            token = tokens[number] if target is None else int(target_ids([target], tokenizer)[0])
            pieces = pieces_of_masked_row(row.ids, examples[number], self.tokenizer)
            place = (number, number, tokenizer.tokens[token], (token,), (int(row.positions[0]),))
            explained.append(ExplainedRow(*place, (examples[number],), pieces))
        return explained, MaskedRows.of(ids, columns, self.tokenizer.vocabulary.pad_id)

    def batches(
        self,
        rows: TokenRows,
        batch_size: int | None,
        masking: Mapping[str, object] | None,
        seed: int,
        *,
        shuffle: bool = False,
        repeat: bool = False,
        start_step: Callable[[], int] = lambda: 0,
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yields masked batches: the features and labels of `MaskedLM`.

        The masks of a batch are determined by the seed and the number of the batch. So a text gets other masks in every
        epoch, and the same seed gives the same masks again. `masking` has fields of `MaskingOptions` and
        `replacement_tokens`, as in `pretraining_dataset`; `start_step` is as for `rows_dataset`.
        """
        options, vocabulary = self._masking(masking, int(rows.lengths.max()))
        is_special = np.zeros(self.model.config.vocab_size, bool)
        own = self.tokenizer.vocabulary
        is_special[[own.pad_id, own.cls_id, own.sep_id]] = True
        first = start_step()
        batches = RowBatches(rows, batch_size, seed if shuffle else None).from_step(first, None if repeat else 1)
        for number, batch in enumerate(batches, first):
            rng = np.random.Generator(np.random.PCG64([seed % 2**64, number]))
            ids, mask = batch[features.INPUT_IDS], batch[features.INPUT_MASK]
            masked = mask_batch(ids, (mask > 0) & ~is_special[ids], mask, options, vocabulary, rng)
            # Columns of masked positions that no row of the batch uses are removed, to compute less.
            used = max(1, int(masked[features.MASKED_LM_WEIGHTS].sum(axis=1).max()))
            for name in (features.MASKED_LM_POSITIONS, features.MASKED_LM_IDS, features.MASKED_LM_WEIGHTS):
                masked[name] = masked[name][:, :used]
            yield batch | masked

    def _masking(self, masking, longest: int) -> tuple[MaskingOptions, MaskingVocabulary]:
        given = dict(masking or {})
        replacement_tokens = given.pop("replacement_tokens", "text")
        enough = {"max_predictions_per_seq": max(1, round(given.get("masked_lm_prob", 0.15) * longest))}
        try:
            options = MaskingOptions(**{**enough, **given})
        except TypeError:
            known = [*MaskingOptions.__dataclass_fields__, "replacement_tokens"]
            raise InputError(
                f"masking must have keys among {', '.join(known)}. Received: {', '.join(map(str, given))}"
            ) from None
        return options, MaskingVocabulary.of(self.tokenizer.vocabulary, replacement_tokens)


def fit_texts(
    model,
    x,
    y=None,
    batch_size: int | None = None,
    epochs: int = 1,
    *,
    max_seq_length: int | None = None,
    masking: Mapping[str, object] | None = None,
    validation_split: float = 0.0,
    validation_data=None,
    validation_batch_size: int | None = None,
    shuffle: bool = True,
    steps_per_epoch: int | None = None,
    seed: int = 12345,
    skip_missing: bool = False,
    class_weight=None,
    sample_weight=None,
    **keras_options,
):
    """Trains a `MaskedLM` on texts. The arguments are those of its `fit`; `keras.Model.fit` gets `keras_options`."""
    # Only now, because it takes seconds, and loaded exports do without it.
    from keras_bert.tasks.fitting import fit_on_batches

    _refuse_weights(class_weight, sample_weight)
    batch_size, task = batch_size_of(batch_size), text_task(model)
    texts, held_out = _texts(task, x, y, skip_missing), None
    if validation_split and validation_data is None:
        first = first_held_out(len(texts), validation_split)
        texts, held_out = texts[:first], texts[first:]
    elif validation_data is not None and not isinstance(validation_data, Mapping):
        held_out = _texts(task, validation_data, None, skip_missing)
    rows = task.rows(texts, max_seq_length).print_notes(sys.stderr).rows
    if held_out is not None:
        held_out = task.rows(held_out, max_seq_length).print_notes(sys.stderr).rows
        validation_data = _dataset(task, held_out, validation_batch_size or batch_size, masking, seed)
    make_dataset = functools.partial(_dataset, task, rows, batch_size, masking, seed, shuffle=shuffle, repeat=True)
    num_batches, keras_options["validation_data"] = len(RowBatches(rows, batch_size)), validation_data
    return fit_on_batches(model, make_dataset, num_batches, steps_per_epoch, epochs, **keras_options)


def _refuse_weights(*weights) -> None:
    if any(one is not None for one in weights):
        raise InputError("Texts of a masked language model have no weights. Leave class_weight and sample_weight out.")


def _texts(task: MaskedLMTask, x, y=None, skip_missing: bool = False) -> list[str]:
    if hasattr(x, "element_spec"):
        x, labels, _ = collect(x, task.example_rank)
        y = y if labels is None else labels
    return complete_examples(task, x, y, skip_missing=skip_missing)


def _dataset(task: MaskedLMTask, rows: TokenRows, batch_size: int, masking, seed: int, **order):
    """Returns a `tf.data.Dataset` of masked batches."""
    import tensorflow as tf

    example = next(task.batches(rows, 1, masking, seed))
    signature = {name: tf.TensorSpec([None, None], values.dtype) for name, values in example.items()}
    generate = tf.autograph.experimental.do_not_convert(lambda: task.batches(rows, batch_size, masking, seed, **order))
    # Without a known size, Keras warns that the data set ended too early.
    count = tf.data.INFINITE_CARDINALITY if order.get("repeat") else len(RowBatches(rows, batch_size))
    dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
    return dataset.apply(tf.data.experimental.assert_cardinality(count)).prefetch(tf.data.AUTOTUNE)


_TOP_K = 5


class LoadedMaskedLM:
    """Methods of loaded exports of a `MaskedLM`, or of the masked-LM part of a `BertPretrainer`."""

    served_inputs: ClassVar = {"text": ()}

    @property
    def served_outputs(self) -> dict[str, tuple]:
        top_k = self.top_k or _TOP_K
        return {"positions": (-1, None), "tokens": ("", None, top_k), "probabilities": (0.0, None, top_k)}

    def serve(self, text: list[str]) -> dict[str, Any]:
        """See `AnswerSignature`. Masks that are cut off have no entries."""
        rows = masked_rows(text, tokenizer_of(self), self.max_seq_length, check=False)
        masked, top_k = [row for row in rows if len(row.positions)], self.top_k or _TOP_K
        ids, positions = [row.ids for row in masked], [row.positions for row in masked]
        best = score_masks(self, ids, positions, lambda _, scores: best_tokens(scores, top_k)) if masked else []
        columns = mask_arrays(masked, best, self.vocabulary.tokens)
        of_masked = iter(zip(*(columns[name] for name in self.served_outputs), strict=True))
        found = [list(zip(*next(of_masked), strict=True)) if len(row.positions) else [] for row in rows]
        return padded(found, self.served_outputs)
