"""Scores predicted answers like the official scripts of SQuAD 1.1 and 2.0.

Examples:
  python -m run_scripts.evaluate_squad dev-v2.0.json predictions.json --na_prob_file=null_odds.json
  python -m run_scripts.evaluate_squad dev-v1.1.json predictions.json --out_file=scores.json

The questions are a SQuAD file, JSON Lines or a tfds: name. The predictions are JSON, {id: text}, with "" for no answer.
Prints JSON with the keys of the script for 2.0, in percent. Files whose version begins with 1 are scored by the rules
of 1.1.
"""

import json
import sys
from typing import Any

from absl import flags

from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import parse_json

FLAGS = flags.FLAGS
ARGUMENTS = ("data.json", "predictions.json")


def define_flags() -> None:
    flags.DEFINE_string("na_prob_file", None, "JSON {id: score of no answer}, such as null_odds.json.")
    flags.DEFINE_float("na_prob_thresh", 1.0, "With na_prob_file: above this number, a prediction counts as no answer.")
    flags.DEFINE_string("out_file", None, "The file for the scores. By default they are printed.")
    help = "Compare answers by the rules of MLQA for this language, instead of those of SQuAD, which are for English."
    flags.DEFINE_enum("mlqa_language", None, ["ar", "de", "en", "es", "hi", "vi", "zh"], help)


def main(data_file: str, predictions_file: str) -> None:
    from data_prep.finetuning.squad import read_squad
    from keras_bert.program.atomic_output import atomic_file, check_output_file
    from keras_bert.tasks.question_answering import scores as squad

    refuse_flags_without_effect(FLAGS.na_prob_file, "without --na_prob_file", "na_prob_thresh")
    if FLAGS.out_file:
        check_output_file(FLAGS.out_file, filter(None, [data_file, predictions_file, FLAGS.na_prob_file]))
    examples = read_squad(data_file)
    texts = [[answer.text for answer in its_answers] for its_answers in examples.answers]
    answers = dict(zip(examples.ids, texts, strict=True))
    predictions = _read_by_id(predictions_file, str, "a text")
    null_odds = _read_by_id(FLAGS.na_prob_file, (int, float), "a number") if FLAGS.na_prob_file else None
    missing = [name for name in answers if name not in predictions]
    if len(missing) == len(answers):
        raise InputError(
            f"{predictions_file} has no prediction for any question of the data. Give the predictions for this file."
        )
    if missing:
        print(f"{len(missing)} questions have no prediction and score 0, such as {missing[0]!r}", file=sys.stderr)
    scores = squad.squad_scores(
        answers,
        predictions,
        null_odds=null_odds,
        null_threshold=FLAGS.na_prob_thresh,
        as_in_1_1=all(answers.values()) and _version(data_file).startswith("1"),
        language=FLAGS.mlqa_language,
    )
    if FLAGS.out_file:
        with atomic_file(FLAGS.out_file) as file:
            file.write((json.dumps(scores) + "\n").encode())
    else:
        print(json.dumps(scores, indent=2))


def _read_by_id(path: str, kind: Any, kind_name: str) -> dict[str, Any]:
    from data_prep.text.text_lines import read_text

    found = parse_json(read_text(path), path)
    if not isinstance(found, dict):
        raise InputError(f"{path} must be a JSON object {{id: {kind_name}}}. Received: {type(found).__name__}")
    for name, value in found.items():
        if not isinstance(value, kind) or isinstance(value, bool) or value != value:
            raise InputError(f"{path}: the value of {name!r} must be {kind_name}. Received: {value!r}")
    return found


def _version(path: str) -> str:
    """Returns the version that a SQuAD file names, or an empty text."""
    from data_prep.finetuning.tables import has_named_values
    from data_prep.text.text_lines import read_text

    if has_named_values(path):
        return ""
    data = json.loads(read_text(path))
    return str(data.get("version", "")) if isinstance(data, dict) else ""


command = command_of(main, define_flags, arguments=ARGUMENTS)
if __name__ == "__main__":
    command()
