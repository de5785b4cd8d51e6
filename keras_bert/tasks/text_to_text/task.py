"""Sources and targets, for `TextToText`."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.token_rows import SourceTargetRows, TokenRows
from keras_bert.tasks.base import Answered, Encoded, TextTask
from keras_bert.tasks.classification.rows import encode_texts
from keras_bert.tasks.encoding import encode_in_parts
from keras_bert.tasks.prediction import predict_rows
from keras_bert.tasks.report_files import aligned, write_table, write_text
from keras_bert.tasks.text_to_text.beam_search import SearchOptions
from keras_bert.tasks.text_to_text.examples import TextToTextExamples
from keras_bert.tasks.text_to_text.scores import bleu_signature, has_text_scores, text_scores
from keras_bert.tokenization.kinds import python_tokenizer
from keras_bert.tokenization.user_inputs import as_texts

_USUAL_NEW_TOKENS = 64


@dataclasses.dataclass(frozen=True)
class WrittenText:
    """A text that the model wrote for a source.

    Attributes:
        text: the best text.
        score: its score, see `tasks/text_to_text/beam_search.py`.
        alternatives: the `num_answers` best texts and their scores, the best first.
    """

    text: str
    score: float
    alternatives: tuple[tuple[str, float], ...] = dataclasses.field(repr=False)


class TextToTextTask(TextTask):
    """Sources -> written texts.

    `x` is N sources and `y` N targets. The scores of an evaluation are those of the targets' tokens, each predicted
    from the tokens before it; predictions for examples with targets get BLEU and ROUGE, if the packages are installed.
    """

    name = "text_to_text"
    main_score = "token_accuracy"
    output_options = tuple(field.name for field in dataclasses.fields(SearchOptions))

    def examples(self, x, y=None, sample_weight=None) -> TextToTextExamples:
        targets = None if y is None else as_texts(y, "target")
        return TextToTextExamples(as_texts(x, "source"), targets, weights=sample_weight)

    def encode(self, examples: TextToTextExamples, max_seq_length: int | None = None) -> Encoded:
        length = self.checked_length(max_seq_length)
        rows, is_cut = self._rows(examples.sources, length)
        num_cut = int(is_cut.sum())
        note = f"{examples.source}: {num_cut} of {len(examples)} sources were cut to {length} tokens"
        if examples.targets is not None:
            # The decoder reads all tokens of a row but the last.
            longest = self.model.config.max_sequence_length + 1
            targets, is_too_long = self._rows(examples.targets, longest)
            if is_too_long.any():
                raise InputError(
                    f"{examples.source}: the target of example {int(is_too_long.argmax()) + 1} has more than "
                    f"{longest - 2} tokens, which the positions of the decoder allow. Shorten it or leave it out."
                )
            weights = np.ones(len(examples), np.float32) if examples.weights is None else examples.weights
            rows = self._with_labels(SourceTargetRows.of(rows, targets), None, weights)
        return Encoded(rows, [note] if num_cut else [])

    def _rows(self, texts: Sequence[str], length: int) -> tuple[TokenRows, np.ndarray]:
        def encode(part: slice):
            return encode_texts(texts[part], None, self.tokenizer, length)

        padding = {features.INPUT_IDS: self.tokenizer.vocabulary.pad_id}
        rows, is_cut = encode_in_parts(encode, len(texts), padding)
        return rows, np.concatenate(is_cut)

    def outputs(self, rows: TokenRows, batch_size: int = 32, verbose="auto", calls=None, **options):
        """Returns the loss and the accuracy of each target, weighted; or, for rows without targets, what is written.

        Args:
            options: see `SearchOptions`. `max_new_tokens` is 64 by default, or the number of the model's positions.
        """
        is_export = hasattr(self.model, "engine")
        if isinstance(rows, SourceTargetRows):
            if is_export:
                raise InputError("An export writes texts and gives no scores to targets. Evaluate the model folder.")
            if options:
                raise InputError(f"An evaluation of targets writes no texts. Leave out {', '.join(options)}.")
            return predict_rows(_TargetScorer(self.model), rows, batch_size, verbose, calls)
        if is_export:
            if options:
                raise InputError(f"The search of an export is fixed. Leave out {', '.join(options)}, or export again.")
            return predict_rows(self.model, rows, batch_size, verbose, calls)
        positions = self.model.config.max_sequence_length
        options = SearchOptions(**{"max_new_tokens": min(_USUAL_NEW_TOKENS, positions), **options})
        self.model.check_target_length(options.max_new_tokens)
        return predict_rows(_Writer(self.model, options), rows, batch_size, verbose, calls)

    def answers(self, examples: TextToTextExamples, encoded: Encoded, outputs) -> list:
        """Returns a `WrittenText` for each example, or the sums over the tokens of each target."""
        if isinstance(encoded.rows, SourceTargetRows):
            return list(zip(*(outputs[name].tolist() for name in ("loss", "right", "weight")), strict=True))
        texts = outputs["texts"].tolist() if "texts" in outputs else [map(self.text_of, ids) for ids in outputs["ids"]]
        return [
            WrittenText(*found[0], tuple(found))
            for found in (
                list(zip(of_example, scores.tolist(), strict=True))
                for of_example, scores in zip(texts, outputs["scores"], strict=True)
            )
        ]

    def text_of(self, ids: Sequence[int]) -> str:
        """Returns the text of generated ids, without special tokens and padding."""
        table = self.tokenizer.vocabulary
        special = {table.pad_id, table.cls_id, table.sep_id, table.mask_id}
        kept = [int(token_id) for token_id in ids if int(token_id) not in special]
        return python_tokenizer(self.model.vocabulary, self.model.config.do_lower_case).decode(kept).strip()

    def scores(self, examples: TextToTextExamples, answers: Sequence, is_worst: bool = False) -> dict[str, float]:
        """Returns `loss` (without label smoothing), `perplexity` and `token_accuracy` of the targets' tokens."""
        loss, right, weight = np.sum(np.asarray(answers, np.float64), axis=0)
        loss = loss / weight
        return {"loss": float(loss), "perplexity": float(np.exp(loss)), "token_accuracy": float(right / weight)}

    def without_labels(self, examples: TextToTextExamples) -> TextToTextExamples:
        return dataclasses.replace(examples, targets=None, weights=None)

    def scores_of_predictions(self, examples: TextToTextExamples, answers: Sequence[WrittenText]) -> dict[str, float]:
        """Returns BLEU and ROUGE, and prints sacrebleu's signature, if there are targets and the packages."""
        if examples.targets is None or not has_text_scores():
            return {}
        written = [answer.text for answer in answers]
        print(f"BLEU: {bleu_signature(written, examples.targets)}")
        return text_scores(written, examples.targets)

    def write_report(self, folder: str | os.PathLike, answered: Answered, scores: Mapping[str, float]) -> None:
        """Writes report.txt with the scores, and the targets with the largest loss per token to errors.tsv."""
        write_text(os.path.join(folder, "report.txt"), aligned(["score", "value"], [list(s) for s in scores.items()]))
        losses = [loss / weight if weight else 0.0 for loss, _, weight in answered.answers]
        examples = answered.examples
        worst = sorted(range(len(losses)), key=lambda number: -losses[number])[:100]
        rows = ([losses[number], examples.sources[number], examples.targets[number]] for number in worst)
        write_table(os.path.join(folder, "errors.tsv"), ["loss", "source", "target"], rows)

    def write_predictions(self, folder: str | os.PathLike, answered: Answered, name: str) -> None:
        """Writes NAME_predictions.tsv: sources, written texts and their scores."""
        rows = zip(answered.examples.sources, answered.answers, strict=True)
        write_table(
            os.path.join(folder, f"{name}_predictions.tsv"),
            ["source", "text", "score"],
            ([source, answer.text, answer.score] for source, answer in rows),
        )


class _TargetScorer:
    """What `predict_rows` runs to score targets: sums over the tokens of each, see `TextToText.loss_terms`."""

    has_token_outputs = False

    def __init__(self, model):
        self.model, self.engine = model, self
        self.feature_names = (*model.feature_names, features.TARGET_MASK)
        self.warn_if_untrained = model.warn_if_untrained
        self._function = _compiled(model, self.feature_names, "target scores", self._scores)

    def _scores(self, inputs):
        return self.model.target_scores(inputs)

    def run(self, batch):
        return self._function(batch)


class _Writer:
    """What `predict_rows` runs to write targets."""

    has_token_outputs = False

    def __init__(self, model, options: SearchOptions):
        self.model, self.options, self.engine = model, options, self
        self.feature_names = model.source_names
        self.warn_if_untrained = model.warn_if_untrained
        self._function = _compiled(model, self.feature_names, options, self._write)

    def _write(self, inputs):
        return self.model.generate(inputs, self.options)._asdict()

    def run(self, batch):
        return self._function(batch)


def _compiled(model, names: Sequence[str], key, function):
    """Returns the function of features, traced on TensorFlow."""
    # Only now, because these take seconds, and loaded exports do without them.
    from keras_bert.accelerate.backend import on_tensorflow
    from keras_bert.accelerate.traced_functions import traced

    if not on_tensorflow():
        return function
    import tensorflow as tf

    signature = {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}
    return traced(model, key, function, [signature])
