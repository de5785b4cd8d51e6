"""Sources and targets, for `TextToText`."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import as_texts
from keras_bert.records import features
from keras_bert.records.token_rows import SourceTargetRows, TokenRows
from keras_bert.tasks.base import Answered, ExampleRows, TextTask
from keras_bert.tasks.prediction import predict_rows, traced_on_features
from keras_bert.tasks.report_files import aligned, write_table, write_text
from keras_bert.tasks.text_rows import text_rows
from keras_bert.tasks.text_to_text.answers import WrittenText, writing_arrays, written_texts
from keras_bert.tasks.text_to_text.examples import TextToTextExamples
from keras_bert.tasks.text_to_text.scores import bleu_signature, has_text_scores, text_scores
from keras_bert.tasks.text_to_text.search_options import SearchOptions

_USUAL_NEW_TOKENS = 64


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

    def rows(self, examples: TextToTextExamples, max_seq_length: int | None = None) -> ExampleRows:
        rows, is_cut, _ = self.text_rows(examples.sources, None, max_seq_length)
        notes = self._notes_of_cuts(examples, is_cut, max_seq_length, "sources were")
        if examples.targets is not None:
            # The decoder reads all tokens of a row but the last.
            longest = self.model.config.max_sequence_length + 1
            targets, is_too_long, _ = text_rows(examples.targets, None, self.tokenizer, longest)
            if is_too_long.any():
                raise InputError(
                    f"{examples.source}: the target of example {int(is_too_long.argmax()) + 1} has more than "
                    f"{longest - 2} tokens, which the positions of the decoder allow. Shorten it or leave it out."
                )
            weights = np.ones(len(examples), np.float32) if examples.weights is None else examples.weights
            rows = self._with_labels(SourceTargetRows.of(rows, targets), None, weights)
        return ExampleRows(rows, notes)

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
            names = (*self.model.feature_names, features.TARGET_MASK)
            score = traced_on_features(self.model, "target scores", self.model.target_scores, names)
            return predict_rows(self.model, rows, batch_size, verbose, calls, score)
        if is_export:
            return predict_rows(self.model, rows, batch_size, verbose, calls)
        positions = self.model.config.max_sequence_length
        if options.get("max_new_tokens") is None:
            options["max_new_tokens"] = min(_USUAL_NEW_TOKENS, positions)
        options = SearchOptions(**options)
        self.model.check_target_length(options.max_new_tokens)

        def write(inputs):
            return self.model.generate(inputs, options)._asdict()

        forward = traced_on_features(self.model, options, write, self.model.source_names)
        return predict_rows(self.model, rows, batch_size, verbose, calls, forward)

    def answers(self, examples: TextToTextExamples, example_rows: ExampleRows, outputs) -> list:
        """Returns a `WrittenText` for each example, or the sums over the tokens of each target."""
        if isinstance(example_rows.rows, SourceTargetRows):
            return list(zip(*(outputs[name].tolist() for name in ("loss", "right", "weight")), strict=True))
        texts = outputs.get("texts")
        if texts is None:
            texts = np.array([list(map(self.text_of, of_source)) for of_source in outputs["ids"]], object)
        return written_texts(writing_arrays(texts, outputs["scores"]), {})

    def text_of(self, ids: Sequence[int]) -> str:
        """Returns the text of generated ids, without special tokens and padding."""
        table = self.tokenizer.vocabulary
        special = {table.pad_id, table.cls_id, table.sep_id, table.mask_id}
        kept = [int(token_id) for token_id in ids if int(token_id) not in special]
        return self.model.tokenizer.decode(kept).strip()

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
        rows = zip(losses, answered.examples.sources, answered.examples.targets, strict=True)
        worst = sorted(rows, key=lambda row: -row[0])[:100]
        write_table(os.path.join(folder, "errors.tsv"), ["loss", "source", "target"], worst)

    def write_predictions(self, folder: str | os.PathLike, answered: Answered, name: str) -> None:
        """Writes NAME_predictions.tsv: sources, written texts and their scores."""
        pairs = zip(answered.examples.sources, answered.answers, strict=True)
        rows = ([source, answer.text, answer.score] for source, answer in pairs)
        write_table(os.path.join(folder, f"{name}_predictions.tsv"), ["source", "text", "score"], rows)
