"""The task of `TokenClassifier` on texts: a tag for each word, such as named entities or parts of speech."""

import dataclasses
import itertools
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import as_list, checked_text, iterate_column
from keras_bert.records import features
from keras_bert.tasks.base import Answered, ExampleRows, TextTask, text_task
from keras_bert.tasks.explanation.explained_rows import ExplainedRow, TextPiece, number_of
from keras_bert.tasks.label_names import label_name
from keras_bert.tasks.report_files import write_lines
from keras_bert.tasks.served_values import byte_places, padded
from keras_bert.tasks.tagging import annotated_spans, tag_schemes
from keras_bert.tasks.tagging import examples as tagging
from keras_bert.tasks.tagging.answers import TagsAnswer, tag_answers
from keras_bert.tasks.tagging.decoding import allowed_transitions, decode_tags
from keras_bert.tasks.tagging.examples import TaggedSentences
from keras_bert.tasks.tagging.report import conll_lines, write_tag_report
from keras_bert.tasks.tagging.rows import pieces_of_words, tagged_rows
from keras_bert.tasks.tagging.scores import entity_scores, tag_accuracy
from keras_bert.tasks.tagging.tag_schemes import TagLabels
from keras_bert.tokenization.text_words import words_of_text


@dataclasses.dataclass(frozen=True)
class SentenceRows(ExampleRows):
    """The rows of sentences, and the positions of their words among the tokens."""

    first_tokens: np.ndarray = None  # int64 (words of all sentences,), the index of each word's first token
    word_splits: np.ndarray = None  # int64 (N + 1,), where the words of each sentence begin and end
    length: int = 0  # the largest number of tokens in a row


class TaggingTask(TextTask):
    """Sentences -> tags and entities.

    `x` is N sentences, each a list of words. For prediction, a sentence may also be a plain string, which
    `tokenization/text_words.py` splits into words. `y` has a list of tags for each sentence, names or label ids, one
    for each word. Entity tags may be in any scheme (BIO, IOB1, BIOES, BILOU, BMES): they are converted to the scheme of
    the model's labels.

    A sentence that is too long for a row is cut between words into several rows, so that every word gets a tag. If the
    model has a `doc_stride`, these rows overlap, and a word is trained and tagged in the row with the most context. The
    score is the F1 of entities, or the accuracy if the labels mark no entities.
    """

    name = "tagger"
    example_rank = 1

    def __init__(self, model):
        super().__init__(model)
        self.labels = tag_schemes.TagLabels.of(model.labels)
        self.allowed = allowed_transitions(self.labels, model.decoding)
        self.main_score = "accuracy" if self.labels.scheme is None else "f1"

    def examples(self, x, y=None, sample_weight=None) -> TaggedSentences:
        given = list(iterate_column(x, "sentences"))
        for number, sentence in enumerate(given, start=1):
            for text in sentence if isinstance(sentence, list) else [sentence]:
                if isinstance(text, str):
                    checked_text(text, f"sentence {number}")
        if y is None:
            return self._of_texts(given, None, sample_weight)
        y = as_list(y, "tags")
        are_spans = all(isinstance(values, list) and all(map(annotated_spans.is_span, values)) for values in y)
        if are_spans and (any(y) or any(isinstance(text, str) for text in given)):
            return self._of_texts(given, y, sample_weight)
        for number, words in enumerate(given, start=1):
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise InputError(
                    f"Sentence {number} must be a list of words, since tags belong to words. Received: {words!r:.100}"
                )
        tags = []
        for number, values in enumerate(y, start=1):
            if not isinstance(values, list):
                raise InputError(f"The tags of sentence {number} must be a list. Received: {values!r:.100}")
            tags.append([label_name(tag, self.model.labels, f"A tag of sentence {number}") for tag in values])
        return TaggedSentences(given, tags, weights=sample_weight)

    def _of_texts(self, texts: list, spans: list | None, weights) -> TaggedSentences:
        """Converts plain strings and lists of words to sentences, with tags if there is a list of spans for each."""
        for number, text in enumerate(texts, start=1):
            is_sentence = isinstance(text, list) and all(isinstance(word, str) for word in text)
            if not isinstance(text, str) and not is_sentence:
                raise InputError(f"Text {number} must be a string or a list of words. Received: {text!r:.100}")
        read = None
        if spans is not None:
            if len(spans) != len(texts):
                raise InputError(f"There are {len(texts)} texts but {len(spans)} lists of spans.")
            names = itertools.compress(self.labels.names, self.labels.is_answer)
            types = {name[2:] for name in names if self.labels.scheme and name != tag_schemes.OUTSIDE}
            read = []
            for number, (text, its_spans) in enumerate(zip(texts, spans, strict=True), start=1):
                read.append(annotated_spans.read_spans(its_spans, text, f"Text {number}", types=types))
        source = "the texts" if spans is None else "the examples"
        return annotated_spans.sentences_of_spans(texts, read, source, weights=weights)

    def rows(self, examples: TaggedSentences, max_seq_length: int | None = None) -> SentenceRows:
        length = self.checked_length(max_seq_length)
        tags = None if examples.tags is None else tagging.label_ids(examples, self.labels)
        rows, counts = tagged_rows(examples.words, tags, self.tokenizer, length, doc_stride=self.model.doc_stride)
        sentences = rows.labels[features.SENTENCE_ID][:, 0]
        rows = dataclasses.replace(rows, labels={})
        first_tokens = np.flatnonzero(rows.tokens[features.LABEL_IDS] != features.NO_LABEL)
        if tags is not None:
            weights = np.ones(len(examples)) if examples.weights is None else np.asarray(examples.weights)
            rows = self._with_labels(rows, None, weights[sentences])
        word_splits = np.cumsum([0, *map(len, examples.words)])
        notes = _notes(examples, counts, length, self.model.doc_stride is not None)
        return SentenceRows(rows, notes, first_tokens, word_splits, length)

    def answers(self, examples: TaggedSentences, example_rows: SentenceRows, outputs: np.ndarray) -> list[TagsAnswer]:
        return tag_answers(
            outputs[example_rows.first_tokens], example_rows.word_splits, examples, self.labels, self.allowed
        )

    def logits_and_labels(self, examples: TaggedSentences, example_rows: SentenceRows, outputs) -> tuple:
        """Returns the logits and tags of all words, without the labels that no word may get."""
        is_answer = np.array(self.labels.is_answer)
        gold = (np.cumsum(is_answer) - 1)[example_rows.rows.tokens[features.LABEL_IDS][example_rows.first_tokens]]
        return outputs[example_rows.first_tokens][:, is_answer], None if examples.tags is None else gold

    def explained_rows(
        self, examples: TaggedSentences, example_rows: SentenceRows, outputs, targets: Sequence
    ) -> list[ExplainedRow]:
        """Explains the logit of the tag of one word, at its first piece. By default it is the first word of the most
        probable entity, or the word with the most probable tag if there is none."""
        answers, rows = self.answers(examples, example_rows, outputs), []
        for number, answer in enumerate(answers):
            target, words = targets[number], examples.words[number]
            word, tag = self._surest(examples, number, answer) if target is None else _word_and_tag(target, words)
            label = number_of(tag, self.model.labels, "tag")
            token = int(example_rows.first_tokens[example_rows.word_splits[number] + word])
            row = int(np.searchsorted(example_rows.rows.splits, token, "right")) - 1
            column, ids = token - int(example_rows.rows.splits[row]), self.row_ids(example_rows, row)
            text, places = examples.text_and_places(number)
            pieces = self._pieces(words, places, word, column, len(ids), example_rows.length)
            name = f"{self.model.labels[label]}: {words[word]}"
            index = column * len(self.model.labels) + label
            rows.append(ExplainedRow(number, row, name, (index,), (column,), (text,), pieces))
        return rows

    def _surest(self, examples: TaggedSentences, number: int, answer: TagsAnswer) -> tuple[int, str]:
        best = decode_tags(answer.log_probabilities, [0, len(answer.words)], self.allowed)
        word = int(np.argmax(answer.probabilities))
        if answer.entities:
            entity = max(answer.entities, key=lambda entity: entity.probability)
            word = entity.start
            if examples.given_as_text(number):
                word = [start for start, _ in examples.spans[number]].index(entity.start)
        return word, self.model.labels[best[word]]

    def _pieces(
        self, words: Sequence[str], places: Sequence, word: int, column: int, length: int, most_tokens: int
    ) -> list:
        """Returns the place of each token of the row that has the first piece of `word` in `column`."""
        _, splits, _ = pieces_of_words(list(words), self.tokenizer, most_tokens - 2)
        first = int(splits[word]) - (column - 1)
        word_of_piece = np.repeat(np.arange(len(words)), np.diff(splits))[first : first + length - 2]
        return [None, *(TextPiece(0, *places[word], *places[word]) for word in word_of_piece.tolist()), None]

    def scores(
        self, examples: TaggedSentences, answers: Sequence[TagsAnswer], is_worst: bool = False
    ) -> dict[str, float]:
        """Returns `f1`, `precision` and `recall` of entities, `macro_f1` (the mean F1 of the types), the `accuracy` of
        tags, and `loss`, the mean over all words."""
        gold = tagging.for_labels(examples, self.labels).tags
        predicted = [answer.tags for answer in answers]
        found = {}
        if self.labels.scheme is not None:
            scores = entity_scores(gold, predicted)
            found = {name: getattr(scores.micro, name) for name in ("f1", "precision", "recall")}
            found["macro_f1"] = scores.macro.f1
        num_words = sum(map(len, examples.words))
        loss = float(np.dot(self.losses(examples, answers), [len(words) for words in examples.words])) / num_words
        return {**found, "accuracy": tag_accuracy(gold, predicted), "loss": loss}

    def losses(self, examples: TaggedSentences, answers: Sequence[TagsAnswer]) -> list[float]:
        """Returns the mean loss of the words of each sentence."""
        ids = tagging.label_ids(examples, self.labels)
        return [
            -float(answer.log_probabilities[np.arange(len(tags)), tags].mean())
            for answer, tags in zip(answers, ids, strict=True)
        ]

    def without_labels(self, examples: TaggedSentences) -> TaggedSentences:
        return dataclasses.replace(examples, tags=None)

    def scores_of_predictions(self, examples: TaggedSentences, answers: Sequence[TagsAnswer]) -> dict[str, float]:
        if examples.tags is None:
            return {}
        try:
            return self.scores(examples, answers)
        except InputError as error:  # in a file to predict, the last column may be something else than tags
            print(f"The predictions were not scored. {error}")
            return {}

    def write_report(self, folder: str | os.PathLike, answered: Answered, scores: Mapping[str, float]) -> None:
        examples, answers = answered.examples, answered.answers
        gold = tagging.for_labels(examples, self.labels).tags
        tags = [answer.tags for answer in answers]
        write_tag_report(folder, examples.words, gold, tags, self.losses(examples, answers), scores)

    def write_predictions(self, folder: str | os.PathLike, answered: Answered, name: str) -> None:
        """Writes NAME_predictions.conll: a line per word with its given tag, if there is one, and its predicted tag.
        Sentences and documents are those of the examples. Of texts with entities it also writes NAME_predictions.jsonl,
        the texts with their predicted spans."""
        examples = answered.examples
        path = os.path.join(folder, f"{name}_predictions.conll")
        write_lines(path, conll_lines(examples, [answer.tags for answer in answered.answers]))
        columns = "words, predicted tags" if examples.tags is None else "words, tags of the file, predicted tags"
        print(f"{path}: the columns are {columns}")
        if examples.texts is not None and self.labels.scheme is not None:
            path = os.path.join(folder, f"{name}_predictions.jsonl")
            write_lines(path, annotated_spans.span_lines(examples, answered.answers))
            print(f"{path}: the texts with the predicted spans, to be corrected and trained on")


def _word_and_tag(target, words: Sequence[str]) -> tuple[int, str]:
    if (
        isinstance(target, (tuple, list))
        and len(target) == 2
        and isinstance(target[0], int)
        and 0 <= target[0] < len(words)
    ):
        return target[0], target[1]
    raise InputError(
        f"A target of explain must be a pair (number of the word from 0, tag); the sentence has {len(words)} words. "
        f"Received: {target!r:.100}"
    )


def _notes(examples: TaggedSentences, counts: Counter, length: int, overlap: bool) -> list[str]:
    notes = [f"{examples.source}: {note}" for note in examples.notes]
    if counts["cut_sentences"]:
        rows = "rows that overlap" if overlap else "rows"
        notes.append(
            f"{examples.source}: {counts['cut_sentences']} of {len(examples)} sentences are longer than {length} "
            f"tokens and were cut between words into several {rows}; no word is lost"
        )
    if counts["unknown_words"]:
        notes.append(
            f"{examples.source}: {counts['unknown_words']} words became [UNK], because they have no pieces or more "
            "than fit in a row"
        )
    return notes


class LoadedTokenClassifier:
    """Methods of loaded exports of a `TokenClassifier`."""

    served_inputs: ClassVar = {"text": ()}

    @property
    def served_outputs(self) -> dict[str, tuple]:
        names = ("words", "tags") if TagLabels.of(self.labels).scheme is None else ("entities", "types")
        places = {"starts": (-1, None), "ends": (-1, None), "probabilities": (0.0, None)}
        return {**dict.fromkeys(names, ("", None)), **places}

    def serve(self, text: list[str]) -> dict[str, Any]:
        """See `AnswerSignature`. A text without words has no entities."""
        specs, parts = self.served_outputs, [[] for _ in text]
        numbers = [number for number, one in enumerate(text) if words_of_text(one)]
        if numbers:
            task = text_task(self)
            examples = task.examples([text[number] for number in numbers])
            for number, answer in zip(numbers, task.answers(examples, *self.computed(examples)), strict=True):
                found = answer.entities if "entities" in specs else answer.tagged_words(text[number])
                places = byte_places(text[number])
                parts[number] = [
                    (one.text, one.type, places[one.start], places[one.end], one.probability) for one in found
                ]
        return padded(parts, specs)
