"""Records what a released version wrote, which all later versions must load:

    PYTHONPATH=.:tests python tests/released/record.py

It writes `VERSION.tar.xz` with a model folder, a `.keras` file and an export of every task, and `VERSION.json` with the
questions and answers. Exports are for ONNX Runtime where it can run the task, because a SavedModel takes seconds to
load; a classifier has both. A released version is recorded once, and never again.
"""

import dataclasses
import json
import pathlib
import tempfile

import keras
import numpy as np
import tiny
from recorded_folders import pack

import keras_bert
from keras_bert import BertConfig, fill_masks, registry, sentence_embeddings
from keras_bert.models.encoder_base import encoder_class
from keras_bert.tokenization.stream_vocabulary import StreamVocabulary

HERE = pathlib.Path(__file__).resolve().parent
VOCABULARY = tiny.vocabulary("the a fox dog who is ##s . ,", *tiny.pieces("xyz"))
TEXTS = ["the fox is a dog.", "who is xyz"]
IDS = {
    "input_ids": [[2, 5, 6, 3], [2, 7, 3, 0]],
    "input_mask": [[1, 1, 1, 1], [1, 1, 1, 0]],
    "segment_ids": [[0] * 4] * 2,
}
SHORT = {"num_beams": 2, "max_new_tokens": 3}  # of written texts; an export has these
PAIRS = [TEXTS, ["a dog", "the fox."]]
# Kind of model -> (arguments, how it is asked, the question).
CASES = {
    "Encoder": ({}, "vectors", TEXTS),
    "SentenceEncoder": ({"pooling": ["mean"], "prompts": {"query": "the fox "}}, "vectors", TEXTS),
    "SequenceClassifier": ({"labels": ["animal", "none"]}, "predict", TEXTS),
    "SentenceClassifier": ({"labels": ["animal", "none"]}, "predict", TEXTS),
    "CrossEncoder": ({}, "predict pairs", PAIRS),
    "MultiVectorEncoder": ({"dense": [{"units": 4}]}, "predict pairs", PAIRS),
    "TokenClassifier": ({"labels": ["O", "B-PER", "I-PER"]}, "predict", TEXTS),
    "SpanClassifier": ({}, "predict pairs", [["who is it"] * 2, TEXTS]),
    "MultipleChoice": ({}, "predict pairs", [TEXTS, [["a", "fox"], ["the dog", "x"]]]),
    "ReplacedTokenDetector": ({}, "call", IDS),
    "ElectraPretrainer": ({}, "weights", None),  # its answers are drawn at random
    "SparseEncoder": ({}, "predict pairs", PAIRS),
    "MaskedLM": ({}, "fill", ["the [MASK] is a dog", "[MASK]"]),
    "TextToText": ({}, "write", TEXTS),
    "BertPretrainer": ({}, "fill", ["the [MASK] is a dog", "[MASK]"]),
    "SpanPretrainer": ({}, "fill", ["the [MASK] is a dog", "[MASK]"]),
    "TransformerXL": ({}, "call", {"input_ids": [[1, 2, 3], [3, 4, 1]]}),
}


def ask(model, how: str, question):
    """Returns the answers of a model or a loaded export as JSON has them: lists, dictionaries, texts and numbers."""
    if how == "call":
        return plain(model({name: np.array(values, "int32") for name, values in question.items()}))
    if how == "weights":
        return [float(np.sum(np.abs(weight))) for weight in model.weights if "seed" not in weight.path]
    if how == "vectors":
        return plain(sentence_embeddings(model, question))
    if how == "fill":
        return plain(fill_masks(model, question, top_k=2))
    if how == "write" and hasattr(model, "generate"):
        return plain(model.predict(question, **SHORT))
    return plain(model.predict(tuple(question) if how == "predict pairs" else question))


def plain(value):
    if dataclasses.is_dataclass(value):
        value = dataclasses.asdict(value)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if one is not None}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    value = value.toarray() if hasattr(value, "toarray") else value
    return value if isinstance(value, (str, int, float, bool)) else np.asarray(value).tolist()


def new_model(kind: str):
    """Returns a new model of a kind with its tokenizer. Its initial weights are large, so that answers differ."""
    keras.utils.set_random_seed(2)
    shape = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16, "num_hidden_layers": 1}
    if kind == "TransformerXL":
        vocabulary = StreamVocabulary(["<unk>", "<eos>", "the", "fox", "dog"], "words")
        config = BertConfig.from_size("transformer-xl-enwik8", **shape, vocab_size=5, mem_len=4)
    else:
        vocabulary, config = VOCABULARY, tiny.config(VOCABULARY, **shape, initializer_range=0.5)
    model_class = encoder_class(config) if kind == "Encoder" else registry.imported(registry.task(kind).model)
    return tiny.made(model_class, config, vocabulary, **CASES[kind][0])


def write(kind: str, folder: pathlib.Path):
    """Writes the files of a kind of model, and returns its answers."""
    model, task = new_model(kind), registry.task(kind)
    model.save_pretrained(folder / "folder")
    model.save(folder / "model.keras")
    if task.export:
        options = SHORT if kind == "TextToText" else {}
        model.export_for_serving(folder / "export", format="onnx" if task.onnx else "saved_model", **options)
    if kind == "SequenceClassifier":
        model.export_for_serving(folder / "saved_model")
    return ask(model, *CASES[kind][1:])


def main() -> None:
    archive = HERE / f"{keras_bert.__version__}.tar.xz"
    if archive.exists():
        raise SystemExit(f"{archive.name} is there. A released version is recorded once.")
    with tempfile.TemporaryDirectory() as folder:
        answers = {kind: write(kind, pathlib.Path(folder, kind)) for kind in registry.TASKS}
        pack(pathlib.Path(folder), archive)
    lines = [
        f'"{kind}": {json.dumps({"how": how, "question": question, "answers": answers[kind]})}'
        for kind, (_, how, question) in CASES.items()
    ]
    archive.with_name(f"{keras_bert.__version__}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
