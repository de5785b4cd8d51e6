"""Tiny exported models of every kind, and questions for all their signatures, for tests in several runtimes.

Questions are plain lists of numbers and strings, so that they can be sent as JSON; invalid UTF-8 becomes surrogates.
"""

import dataclasses
import json
import pathlib

import keras
import numpy as np
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.models.encoder import BertEncoder
from keras_bert.serving import export
from keras_bert.serving.graph.signature_inputs import SignatureOptions
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.embedding.model import SentenceEncoder
from keras_bert.tasks.multiple_choice.model import MultipleChoice
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.question_answering.model import SpanClassifier
from keras_bert.tasks.tagging.model import TokenClassifier
from keras_bert.tokenization.vocabulary import Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
# Every lower-case word can be cut into pieces, so texts differ in their tokens like real texts.
VOCABULARY = Vocabulary(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    + ["the", "of", "and", "##ing", "##ed", "##er", "##tion", "fox", "中", "文", "и", "##и", "м", *".,:;!?()[]'\"-/@#"]
)
# With large initial weights, answers differ from text to text.
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY),
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=48,
    initializer_range=0.4,
)
# News, code, a table, other scripts, accents, composed and decomposed, an emoji, control characters, too long a text.
TEXTS = [
    "The council of the city voted on Tuesday, 7 to 2, and the mayor signed at 10:45.",
    "for (i = 0; i < n; i++) total += price[i];  // sum",
    "Größe\tñandú\u00a0Ångström e\u0301te\u0301 ﬁnd",
    "中文和 English 混在一起。 Москва и мир, العربية, עברית",
    "\u200bzero\u0000width 👩‍🚀 http://example.org/?q=1#x",
    "fox " * 100,
    "x" * 300,
    "the",
    "",
]
SECOND_TEXTS = ["and the fox", "is it?", "中", "ok", "A " * 60, "fox", "walking", "of", "tested"]
MASKED_TEXTS = ["the [MASK] fox [MASK].", "[MASK]", "no mask of it", "a" + " b" * 60 + " [MASK]", "中[MASK]文"]
CHOICES = [["the fox", "and so on", "中文"], ["a", "walked " * 30, "?"], ["one", "two", "three"]]


@dataclasses.dataclass(frozen=True)
class Question:
    """A model by name, one of its signatures, and the inputs by name."""

    model: str
    signature: str
    inputs: dict


def make_models() -> dict:
    """Returns name -> (model, options of its export)."""
    keras.utils.set_random_seed(1)
    config = CONFIG.replace(num_hidden_layers=1)
    single = SequenceClassifier(config, labels=["animal", "none", "größer"])
    models = {
        "single": (single, {}),
        "several": (
            SequenceClassifier(config, labels=["a", "b"], problem_type="multi_label"),
            {"text_pairs": True},
        ),
        "score": (SequenceClassifier(config, ["score"], problem_type="regression"), {"max_seq_length": 20}),
        "choice": (MultipleChoice(config), {}),
        "masked": (BertPretrainer(config), {"top_k": 3}),
        "encoder": (BertEncoder(config), {}),
        "sentence": (
            SentenceEncoder(config, pooling=["cls", "max"], dense=[{"units": 5}], prompts={"query": "the fox "}),
            {},
        ),
        "int8": (single, {"weights": "int8"}),
        "bfloat16": (single, {"dtype": "bfloat16"}),
        "tagger": (TokenClassifier(config, ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]), {}),
        "answerer": (SpanClassifier(config, null_threshold=0.0, doc_stride=8, max_query_length=10), {}),
    }
    for model, _ in models.values():
        model.vocabulary = VOCABULARY
    return models


class Exports(dict):
    """Name -> folder of the SavedModel. A model is exported when its name is first looked up.

    Args:
        models: what `make_models` returns.
        folder: the folder of the exports.
    """

    def __init__(self, models: dict, folder):
        super().__init__()
        self._models, self._folder = models, pathlib.Path(folder)

    def __missing__(self, name: str) -> str:
        model, options = self._models[name]
        self[name] = model.export_for_serving(self._folder / name, **options)
        return self[name]


def made_signatures(model, options):
    """Returns the signatures of a model as functions of their named inputs, without an export."""
    options, tokenizer = (
        export._checked_options(model, SignatureOptions(**options)),
        export.make_tokenizer(model.vocabulary, model.config.do_lower_case),
    )
    made = export.all_signatures(model, tokenizer, options)
    return {name: by_name(function) for name, function in made.items()}


def by_name(function):
    """Lets a signature take its inputs by their names in exports."""
    return lambda **inputs: function(*(inputs[spec.name] for spec in function.input_signature))


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
    choice_rows = {
        "input_ids": [[[2, 5, 3, 6, 3], [2, 5, 3, 7, 3]]],
        "segment_ids": [[[0, 0, 0, 1, 1], [0, 0, 0, 1, 1]]],
        "lengths": [[5, 5]],
    }
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
        *(("single", signature, {"text": []}) for signature in ("serving_default", "tokenize")),
        *(("single", "examples", {"examples": []}), ("encoder", "features", {"text": []})),
        *(("masked", "serving_default", {"text": []}), ("several", "classify", {"inputs": []})),
        *(
            ("tagger", "serving_default", {"text": []}),
            ("answerer", "serving_default", {"question": [], "context": []}),
        ),
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


def as_json(questions: list[Question], folders: dict[str, str]) -> str:
    return json.dumps([[folders[question.model], question.signature, question.inputs] for question in questions])
