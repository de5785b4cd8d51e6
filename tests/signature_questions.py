"""Questions for all signatures of the models in tiny_models.py, for tests in several runtimes.

Questions are plain lists of numbers and strings, so that they can be sent as JSON; invalid UTF-8 becomes surrogates.
"""

import dataclasses
import functools

import numpy as np
import tensorflow as tf
from tiny_models import CHOICES, MASKED_TEXTS, SECOND_TEXTS, TEXTS


@dataclasses.dataclass(frozen=True)
class Question:
    """A SavedModel by its name in `tiny_models.SAVED_MODELS`, one of its signatures, and the inputs by name."""

    model: str
    signature: str
    inputs: dict


def example(**features: list[str]) -> str:
    """A serialised tf.train.Example of bytes features, as text."""
    lists = {name: tf.train.BytesList(value=[as_bytes(value) for value in values]) for name, values in features.items()}
    features = tf.train.Features(feature={name: tf.train.Feature(bytes_list=values) for name, values in lists.items()})
    return tf.train.Example(features=features).SerializeToString().decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def questions() -> list[Question]:
    """Questions for every signature of every model, including empty batches."""
    texts = {"text": [*TEXTS, "\udcff the \udcc3 fox"]}
    rows = {"input_ids": [[2, 5, 40, 45, 3], [2, 80, 4, 3, 2]], "lengths": [5, 4]}
    pair_rows = {**rows, "segment_ids": [[0, 0, 0, 1, 1], [0, 0, 1, 1, 0]]}
    examples = [example(text=[text]) for text in TEXTS]
    pair_examples = [example(text=["the"], text_b=["fox"]), example(text=["the"])]
    choice_rows = {"input_ids": [[[2, 5, 3, 6, 3], [2, 5, 3, 7, 3]]], "lengths": [[5, 5]]}
    choice_rows["segment_ids"] = [[[0, 0, 0, 1, 1], [0, 0, 0, 1, 1]]]
    choice_examples = [example(prompt=["the"], choices=["a", "b"]), example(prompt=["fox"], choices=["c", "d", "e"])]
    asked = {
        "single": [("serving_default", texts), ("tokens", rows), ("tokenize", texts)],
        "several": [
            ("serving_default", {"text": TEXTS, "text_b": SECOND_TEXTS}),
            ("tokens", pair_rows),
            ("examples", {"examples": pair_examples}),
            ("classify", {"inputs": pair_examples}),
        ],
        "score": [("regress", {"inputs": examples})],
        "choice": [
            ("serving_default", {"prompt": TEXTS[:3], "choices": CHOICES}),
            ("examples", {"examples": choice_examples}),
            ("tokens", choice_rows),
        ],
        "tagger": [
            ("serving_default", texts),
            ("words", {"words": [["the", "fox", "中"], ["a", "the", "the"]], "num_words": [3, 1]}),
            ("tokens", rows),
            ("examples", {"examples": examples}),
        ],
        "answerer": [
            ("serving_default", {"question": SECOND_TEXTS, "context": TEXTS}),
            ("tokens", pair_rows),
            ("examples", {"examples": [example(question=["is it?"], context=["the fox " * 50])]}),
        ],
        "masked": [("serving_default", {"text": MASKED_TEXTS}), ("tokens", rows), ("tokenize", {"text": MASKED_TEXTS})],
        "encoder": [("serving_default", texts), ("features", texts)],
        "sentence": [("embed_query", texts), ("score", {"text": TEXTS, "text_b": SECOND_TEXTS}), ("tokens", rows)],
        "int8": [("serving_default", texts)],
        "bfloat16": [("examples", {"examples": examples})],
    }
    empty = [
        *((model, "serving_default", {"text": []}) for model in ("single", "masked", "tagger")),
        ("single", "tokenize", {"text": []}),
        ("single", "examples", {"examples": []}),
        ("encoder", "features", {"text": []}),
        ("several", "classify", {"inputs": []}),
        ("answerer", "serving_default", {"question": [], "context": []}),
    ]
    full = [(model, *question) for model, of_model in asked.items() for question in of_model]
    return [Question(*question) for question in full + empty]


def as_tensors(inputs: dict) -> dict[str, tf.Tensor]:
    """The inputs of a question as tensors: int32 or strings. An empty list is of strings."""
    tensors = {}
    for name, values in inputs.items():
        # As objects: an array of str would lose NULs at the end.
        array = np.array(values, object)
        is_number = array.size > 0 and isinstance(array.reshape(-1)[0], int)
        encoded = array if is_number else np.vectorize(as_bytes, otypes=[object])(array)
        tensors[name] = tf.constant(encoded.tolist(), tf.int32 if is_number else tf.string, array.shape)
    return tensors


def as_lists(outputs: dict) -> dict[str, tuple[list[int], list]]:
    """Arrays by name as name -> (shape, flat list), with text for bytes."""
    return {
        name: (
            list(np.shape(values)),
            [value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value for value in flat],
        )
        for name, values in outputs.items()
        for flat in [np.asarray(values).reshape(-1).tolist()]
    }


def assert_same(answer: dict, expected: dict, tolerance: float = 1e-5) -> None:
    """Compares two results of `as_lists`."""
    assert set(answer) == set(expected)
    for name, (shape, values) in expected.items():
        assert list(answer[name][0]) == shape, name
        if values and isinstance(values[0], float):
            np.testing.assert_allclose(answer[name][1], values, atol=tolerance, err_msg=name)
        else:
            assert list(answer[name][1]) == values, name


def assert_answers(questions: list[Question], answers: list[dict], folders: dict[str, str]) -> None:
    """Compares answers of another runtime, as `as_lists` has them, with those of TensorFlow for Python."""
    load = functools.cache(lambda name: tf.saved_model.load(folders[name]))
    for question, answer in zip(questions, answers, strict=True):
        expected = load(question.model).signatures[question.signature](**as_tensors(question.inputs))
        # bfloat16 rounds to 8 bits, and the order of sums differs between the two.
        tolerance = 2e-2 if question.model == "bfloat16" else 1e-5
        assert_same(answer, as_lists({name: value.numpy() for name, value in expected.items()}), tolerance)
