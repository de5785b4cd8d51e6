"""`zero_shot` gives the scores of transformers' pipeline, for models of several families."""

import json
import pathlib
import subprocess

import keras
import numpy as np
from recorded_folders import recorded_folder
from tiny_families import new

from keras_bert.tasks.classification.model import SequenceClassifier

SCRIPT = pathlib.Path(__file__).with_name("transformers_zero_shot.py")
LENGTH = 24  # of rows, as in the script
TEXTS = ["the fox", "a dog, the dog", "the fox who " * 20]
LABELS = ["fox", "dog", "the dog who"]
# Without ALBERT, whose tokenizer in transformers 5 gives no segment ids for a folder with spiece.model alone.
FAMILIES = ["roberta", "xlm-roberta", "electra", "modernbert", "deberta-v2", "mpnet"]


def test_scores_are_those_of_the_pipeline(transformers_python, tmp_path):
    folders = [str(recorded_folder("heads", f"nli_entail_{place}")) for place in ("first", "last")]
    for family in FAMILIES:
        folders.append(str(tmp_path / family))
        labels = ["entailment", "neutral", "contradiction"]
        new(SequenceClassifier, family, labels=labels).save_pretrained(folders[-1], format="huggingface")
    asked = [{"candidate_labels": labels, "multi_label": each} for labels in (LABELS, LABELS[:1]) for each in (0, 1)]
    asked = [{"sequences": TEXTS, "hypothesis_template": "a {} ?", **arguments} for arguments in asked]
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    command = [transformers_python, str(SCRIPT), str(tmp_path / "found.json"), str(tmp_path / "asked.json"), *folders]
    subprocess.run(command, check=True, capture_output=True)
    for folder, of_calls in zip(folders, json.loads((tmp_path / "found.json").read_text()), strict=True):
        keras.utils.clear_session()
        model = SequenceClassifier.from_pretrained(folder)
        for arguments, rows in zip(asked, of_calls, strict=True):
            labels = arguments["candidate_labels"]
            options = {"multi_label": bool(arguments["multi_label"]), "max_seq_length": LENGTH}
            answers = model.zero_shot(TEXTS, labels, arguments["hypothesis_template"], **options)
            found = [[answer.probabilities[label] for label in labels] for answer in answers]
            expected = [[row[label] for label in labels] for row in rows]
            np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0, err_msg=folder)
            print(folder, np.abs(np.array(found) - expected).max())
