"""Folders with a tokenizer of another family give, from text to logits, what transformers computes.

transformers also writes the folders again in its own form, and these are read here.
"""

import json
import pathlib
import subprocess

import keras
import numpy as np
import pytest
from tiny_families import VOCABULARIES, config_of

from keras_bert import CrossEncoder, SequenceClassifier, Vocabulary
from keras_bert.records import features
from keras_bert.tasks.base import text_task

PROGRAM = pathlib.Path(__file__).with_name("transformers_texts.py")
TEXTS, OTHERS = ["the fox", "a dog, the dog", "who? the"], ["a dog", "fox", "the fox the fox"]
KLUE = Vocabulary(["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", "the", "a", "fox", "dog", ",", "who", "?"])
XLM_ROBERTA = VOCABULARIES["xlm-roberta"]
WITH_SPARE_ROWS = XLM_ROBERTA.with_spare_rows(len(XLM_ROBERTA) + 35)
# Family, tokenizer, class of the model, changes of config.json.
FOLDERS = {
    "KLUE's RoBERTa": ("roberta", KLUE, SequenceClassifier, {}),
    "multilingual e5": ("bert", WITH_SPARE_ROWS, SequenceClassifier, {"pad_token_id": 0}),
    "bge-reranker": ("xlm-roberta", XLM_ROBERTA, CrossEncoder, {}),
    "MPNet": ("mpnet", VOCABULARIES["mpnet"], SequenceClassifier, {}),
    "CamemBERT": ("camembert", VOCABULARIES["camembert"], SequenceClassifier, {}),
}


def write(folder, family, vocabulary, model_class, changes):
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    shape |= {"max_position_embeddings": 40, "initializer_range": 0.3, "vocab_size": len(vocabulary)}
    shape |= {"do_lower_case": isinstance(vocabulary, Vocabulary)}
    keras.utils.set_random_seed(3)
    labels = {"labels": ["fox", "dog"]} if model_class is SequenceClassifier else {}
    model = model_class(config_of(family, **shape), **labels)
    model.vocabulary = vocabulary
    model.save_pretrained(folder, format="huggingface")
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize("name", FOLDERS)
def test_texts_and_pairs_have_the_ids_and_logits_of_transformers(transformers_python, name, tmp_path):
    family, vocabulary, model_class, changes = FOLDERS[name]
    write(tmp_path / "ours", family, vocabulary, model_class, changes)
    command = [transformers_python, PROGRAM, tmp_path / "ours", tmp_path / "theirs"]
    result = subprocess.run(command, input=json.dumps([TEXTS, OTHERS]), capture_output=True, text=True, check=True)
    of_texts, of_pairs = json.loads(result.stdout.splitlines()[-1])
    for folder in ("ours", "theirs"):
        model = SequenceClassifier.from_pretrained(tmp_path / folder)
        task = text_task(model)
        for texts, (ids, logits) in ((TEXTS, of_texts), ((TEXTS, OTHERS), of_pairs)):
            examples = task.examples(texts)
            rows = task.rows(examples).rows
            found = np.split(rows.tokens[features.INPUT_IDS], rows.splits[1:-1])
            assert [row.tolist() for row in found] == ids
            batch = rows.padded(max(np.diff(rows.splits)))
            batch = {feature: batch[feature] for feature in model.feature_names}
            np.testing.assert_allclose(np.asarray(model(batch)), logits, atol=2e-5)
        if model_class is CrossEncoder:
            scores = CrossEncoder.from_pretrained(tmp_path / folder).predict((TEXTS, OTHERS))
            np.testing.assert_allclose(scores, 1 / (1 + np.exp(-np.array(of_pairs[1])[:, 0])), atol=2e-5)
