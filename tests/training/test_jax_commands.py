"""Commands of fine-tuning train, evaluate and predict on Keras' JAX backend as on TensorFlow."""

import json
import os
import re
import subprocess

import keras
import numpy as np
import pytest
import tiny
from on_jax import command_on, needs_jax
from places import TESTS

from keras_bert import MaskedLM, MultipleChoice, SpanClassifier, TextToText, TokenClassifier

pytestmark = [pytest.mark.slow, needs_jax]
WORDS = (
    "ada alan grace who when was born in 1815 1912 1906 ? . wrote from london new york sky grass it is blue green a dog"
)
VOCABULARY = tiny.vocabulary(WORDS)
MODELS = {
    "run_ner": (TokenClassifier, {"labels": ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]}),
    "run_squad": (SpanClassifier, {}),
    "run_multiple_choice": (MultipleChoice, {}),
    "run_text_to_text": (TextToText, {}),
    "adapt_to_domain": (MaskedLM, {}),
}
TRAINED = {"adapt_to_domain": "pretraining/model"}
TAGGED = "Ada B-PER\nwrote O\nfrom O\nLondon B-LOC\n\nNew B-LOC\nYork I-LOC\nwrote O\n\n"
CHOICES = "video-id,sent1,sent2,ending0,ending1,ending2,ending3,label\n" + "1,sky,It is,blue,green,a,b,0\n" * 8
SENTENCES = "en\tde\n" + "a dog\tthe sky\nblue sky\tgreen grass\n" * 4


def questions():
    paragraphs = []
    for name in ("ada", "alan", "grace"):
        context, answers = f"{name} was born in 1815.", [{"text": name, "answer_start": 0}]
        paragraphs.append({"context": context, "qas": [{"id": name, "question": "who?", "answers": answers}]})
    return json.dumps({"version": "1.1", "data": [{"title": "people", "paragraphs": paragraphs}]})


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Function of a backend -> the folder with the output of each command, which one process writes."""
    place = tmp_path_factory.mktemp("commands")
    keras.utils.set_random_seed(3)
    config = tiny.config(VOCABULARY, dropout=0.0, max_position_embeddings=64, initializer_range=0.1)
    for name, (model_class, arguments) in MODELS.items():
        model_class(config, **arguments).save_pretrained(place / "start" / name, VOCABULARY)
    documents = [f"Ada wrote from London.\nThe sky is blue, and grass is green in {number}." for number in range(40)]
    files = {f"run_ner/{name}.conll": TAGGED * 8 for name in ("train", "dev", "test")}
    files |= {f"run_multiple_choice/{name}.csv": CHOICES for name in ("train", "dev")}
    files |= {f"run_text_to_text/{name}.tsv": SENTENCES for name in ("train", "dev", "test")}
    files |= {"squad.json": questions(), "text.txt": "\n\n".join(documents)}
    for name, text in files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    trained = ["--train_batch_size=4", "--num_train_epochs=1", "--do_train"]
    data = f"--data_dir={place}/{{}}"
    flags = {
        "run_ner": [data, "--do_eval", "--do_predict", "--max_seq_length=16", *trained],
        "run_squad": [f"--train_file={place}/squad.json", f"--predict_file={place}/squad.json", "--max_seq_length=32"],
        "run_multiple_choice": [data, "--task_name=SWAG", "--do_eval", "--max_seq_length=16", *trained],
        "run_text_to_text": [data, "--source_column=en", "--target_column=de", "--max_new_tokens=5", "--do_eval"],
        "adapt_to_domain": [f"--text={place}/text.txt", "--num_new_tokens=2", "--num_train_steps=4"],
    }
    flags["run_squad"] += ["--do_predict", *trained]
    flags["run_text_to_text"] += ["--do_predict", *trained]

    def run(backend):
        folder = place / backend
        start = [f"--init_checkpoint={place}/start/{{}}", f"--output_dir={folder}/{{}}", "--random_seed=5"]
        commands = [[name, *(flag.format(name) for flag in start + flags[name])] for name in flags]
        (place / f"{backend}.json").write_text(json.dumps(commands))
        program = command_on(backend, TESTS / "commands_in_turn.py", place / f"{backend}.json")
        result = subprocess.run(**program, capture_output=True, text=True, timeout=600)
        codes = re.findall(rf"({'|'.join(flags)}): (\d+)", result.stdout)
        assert codes == [(name, "0") for name in flags], result.stderr[-3000:]
        return folder

    return {backend: run(backend) for backend in ("jax", "tensorflow")}


@pytest.mark.parametrize("name", MODELS)
def test_a_command_gives_the_weights_and_files_of_tensorflow(name, outputs):
    on_jax, on_tensorflow = (outputs[backend] / name for backend in ("jax", "tensorflow"))
    assert {*os.listdir(on_jax)} == {*os.listdir(on_tensorflow)}
    found, expected = (
        MODELS[name][0].from_pretrained(folder / TRAINED.get(name, "model")).get_weights()
        for folder in (on_jax, on_tensorflow)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
