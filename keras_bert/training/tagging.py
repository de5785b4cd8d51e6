"""The runs of `TokenClassifier`: tagged sentences in; tagger, scores, report and tagged files out."""

import dataclasses
import os
from collections.abc import Iterator, Sequence

from keras_bert.models.token_classifier import TokenClassifier
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.tasks.fitting import text_task
from keras_bert.tasks.tagging.examples import TaggedSentences, in_scheme, labels_of
from keras_bert.tasks.tagging.report import write_tag_report
from keras_bert.tasks.tagging.tag_schemes import find_scheme
from keras_bert.tasks.tagging.task import TagsAnswer
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.training.fine_tuning import (
    Answered,
    FineTuningOptions,
    ask_trained_model,
    fine_tune,
    write_eval_results,
)
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.starting_point import StartingPoint

REPORT_FOLDER = "eval_report"
PREDICTIONS_NAME = "test_predictions.conll"


def train_tagger(
    output_dir: str | os.PathLike,
    train: TaggedSentences,
    start: StartingPoint,
    options: FineTuningOptions | None = None,
    *,
    dev: TaggedSentences | None = None,
    labels: Sequence[str] | None = None,
) -> TokenClassifier:
    """Trains a tagger; see `fine_tune`.

    Args:
        dev: sentences to evaluate on while training, for `options.keep_best`.
        labels: the tags in the order of their ids; by default those of `train`, see `labels_of`.
    """
    arguments = {"labels": list(labels or labels_of(train))}
    return fine_tune(output_dir, TokenClassifier, train, dev, start=start, options=options, model_arguments=arguments)


def evaluate_tagger(
    output_dir: str | os.PathLike,
    dev: TaggedSentences,
    *,
    init_checkpoint: str | os.PathLike | None = None,
    vocabulary: Vocabulary | None = None,
    do_lower_case: bool | None = None,
    max_seq_length: int | None = None,
    eval_batch_size: int = 8,
) -> dict[str, float]:
    """Evaluates a tagger; writes `eval_results.txt` and the folder `eval_report` (see `write_tag_report`).

    Args:
        output_dir: the folder of a finished run, or an empty one if `init_checkpoint` is given.
        dev: sentences with tags that the tagger knows.
        init_checkpoint: a checkpoint of a tagger in any format, used when `output_dir` has no model.
        vocabulary, do_lower_case: as of `StartingPoint`, for that checkpoint.

    Returns:
        `eval_f1`, `eval_precision`, `eval_recall`, `eval_macro_f1` of entities; `eval_accuracy` of tags; `eval_loss`,
        `loss` and `global_step`.

    Raises:
        InputError: there is no tagger, or a tag that it does not know.
    """
    answered = ask_trained_model(
        output_dir,
        TokenClassifier,
        dev,
        init_checkpoint=init_checkpoint,
        vocabulary=vocabulary,
        do_lower_case=do_lower_case,
        max_seq_length=max_seq_length,
        batch_size=eval_batch_size,
    )
    results = write_eval_results(output_dir, answered)
    _write_report(RunFolder(output_dir).file(REPORT_FOLDER), answered)
    return results


def predict_tagger(
    output_dir: str | os.PathLike,
    test: TaggedSentences,
    *,
    init_checkpoint: str | os.PathLike | None = None,
    vocabulary: Vocabulary | None = None,
    do_lower_case: bool | None = None,
    max_seq_length: int | None = None,
    predict_batch_size: int = 8,
) -> list[TagsAnswer]:
    """Predicts and writes `test_predictions.conll`: a word a line, its tag in `test` if it has them, the predicted tag.

    Sentences and documents are those of `test`. Columns are parted by blanks, as conlleval reads them, or by tabs where
    a word has a blank in it. Where `test` has tags that the tagger knows, `test_results.txt` has their scores.

    Returns:
        An answer for each sentence.

    Raises:
        InputError: there is no tagger.
    """
    unlabelled = dataclasses.replace(test, tags=None)
    answered = ask_trained_model(
        output_dir,
        TokenClassifier,
        unlabelled,
        init_checkpoint=init_checkpoint,
        vocabulary=vocabulary,
        do_lower_case=do_lower_case,
        max_seq_length=max_seq_length,
        batch_size=predict_batch_size,
    )
    path = RunFolder(output_dir).file(PREDICTIONS_NAME)
    predicted = [answer.tags for answer in answered.answers]
    with atomic_file(path) as file:
        for line in conll_lines(test, predicted):
            file.write(f"{line}\n".encode("utf-8", "replace"))
    columns = "words, tags of the file, predicted tags" if test.tags is not None else "words, predicted tags"
    print(f"{path}: the columns are {columns}")
    if test.tags is not None:
        _score_test(output_dir, dataclasses.replace(answered, examples=test))
    return answered.answers


def conll_lines(sentences: TaggedSentences, predicted: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields the lines of a CoNLL file: a word and its tags a line, an empty line behind each sentence.

    Where there are several documents, each begins with a -DOCSTART- line of as many columns.
    """
    separator = "\t" if any(len(word.split()) > 1 for words in sentences.words for word in words) else " "
    tags = [predicted] if sentences.tags is None else [sentences.tags, predicted]
    documents = sentences.documents or [0] * len(sentences)
    previous = -1 if documents[-1] else 0
    for number, words in enumerate(sentences.words):
        if documents[number] != previous:
            yield separator.join(["-DOCSTART-", *["O"] * len(tags)])
            yield ""
            previous = documents[number]
        for columns in zip(words, *(column[number] for column in tags), strict=True):
            yield separator.join(columns)
        yield ""


def _score_test(output_dir: str | os.PathLike, answered: Answered) -> None:
    try:
        scores = text_task(answered.model).scores(answered.examples, answered.answers)
    except InputError as error:  # what the file has in that column need not be tags
        print(f"The predictions were not scored. {error}")
        return
    results = {f"test_{name}": value for name, value in scores.items()}
    print(RunFolder(output_dir).write_results(results, "test_results.txt"), end="")


def _write_report(folder: str, answered: Answered) -> None:
    task = text_task(answered.model)
    examples = answered.examples
    os.makedirs(folder, exist_ok=True)
    write_tag_report(
        folder,
        examples.words,
        in_scheme(examples, find_scheme(answered.model.labels)).tags,
        [answer.tags for answer in answered.answers],
        task.losses(examples, answered.answers),
        task.scores(examples, answered.answers),
    )
    print(f"{folder}: the report")
