"""Vectors of texts: one for each text (sentence embeddings), or one for each token and layer (features).

Texts are computed in batches of similar length, and results are in the order of the texts. Only a window of texts is in
memory.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.tokenization.kinds import python_tokenizer
from keras_bert.tokenization.user_inputs import checked_text, iterate_column

POOLINGS = ("mean", "first")
_THEIR_NAMES = {"mean": "mean", "first": "cls"}  # our poolings -> those of sentence-transformers

_WINDOW = 4096  # texts that are sorted by length together
_STEP = 16 # rows are padded to multiples of this, so that there are few different lengths


class EncodedText(NamedTuple):
    """The token ids of a text, including [CLS] and [SEP], and their segment ids."""

    ids: list[int]
    segment_ids: list[int]


def sentence_embeddings(
    model,
    texts: Iterable[str],
    *,
    pooling: str = "mean",
    normalize: bool = True,
    batch_size: int = 32,
    max_seq_length=None,
    on_progress: Callable[[int], None] = lambda num_texts: None,
) -> np.ndarray:
    """Returns one vector for each text.

    Args:
        model: a `BertEncoder` or a model that has one, with a vocabulary.
        texts: strings; a single string counts as a list of one.
        pooling: `mean` of the vectors of all tokens, including [CLS] and [SEP], as in sentence-transformers; or
            `first`, the vector of [CLS].
        normalize: whether to scale each vector to length 1, so that dot products are cosines.
        batch_size: texts computed at once.
        max_seq_length: longer texts are cut to this many tokens. By default the number of the model's positions.
        on_progress: called after each batch with the number of texts in it.

    Returns:
        float32 `[texts, H]`.

    Raises:
        InputError: the model has no vocabulary, an argument is invalid, or the model is from a folder of
            sentence-transformers with another pooling.

    Example:
        encoder = BertEncoder.from_pretrained("all-MiniLM-L6-v2")
        vectors = sentence_embeddings(encoder, ["A cat sits on the mat.", "A kitten is on a rug."])
        vectors @ vectors.T  # similarities
    """
    check_pooling(model.config, pooling)
    encoder = getattr(model, "encoder", model)
    found = [
        vectors[:, 0].mean(axis=0) if pooling == "mean" else vectors[0, 0]
        for vectors in _vectors(encoder, encode_texts(model, texts, max_seq_length), None, batch_size, on_progress)
    ]
    result = np.array(found, "float32").reshape(-1, encoder.config.hidden_size)
    if normalize:
        result /= np.maximum(np.linalg.norm(result, axis=1, keepdims=True), 1e-12)
    return result


def check_pooling(config: BertConfig, pooling: str) -> None:
    """Raises `InputError` if the pooling is unknown, or if the model was trained for another one.

    A model without a stated pooling, or with "mean", may be used with any pooling.
    """
    if pooling not in POOLINGS:
        raise InputError(f"pooling must be one of {', '.join(POOLINGS)}. Received: {pooling!r}")
    trained_pooling = config.sentence_pooling
    if trained_pooling not in ("mean", _THEIR_NAMES[pooling]):
        advice = (
            "Use pooling='first', which is the same." if trained_pooling == "cls" else "Use sentence-transformers for "
            "it."
        )
        raise InputError(
            f"The model was trained for the pooling {str(trained_pooling)[:100]!r}, according to modules.json in its "
            f"folder. Received: {_THEIR_NAMES[pooling]!r}. {advice}"
        )


def token_features(
    model,
    encoded: Iterable[EncodedText],
    layers: Sequence[int] = (-1, -2, -3, -4),
    batch_size: int = 32,
    on_progress: Callable[[int], None] = lambda num_texts: None,
) -> Iterator[np.ndarray]:
    """Yields the outputs of some layers for each text, float32 `[tokens, layers, H]`.

    Args:
        model: a `BertEncoder` created with `output_hidden_states=True`.
        encoded: the results of `encode_texts`.
        layers: layer numbers as in Google's `extract_features.py`: 0 is the first layer, -1 the last.
        batch_size: texts computed at once.
        on_progress: called after each batch with the number of texts in it.

    Raises:
        InputError: a layer does not exist, or the encoder does not return its hidden states.

    Reference: Devlin et al., 2018, section 5.3: the last four layers, joined, are the best features for NER.
    """
    count = model.config.num_hidden_layers
    wrong = [layer for layer in layers if not -count <= layer < count]
    if wrong or not layers:
        raise InputError(f"layers must be one or more numbers from {-count} to {count - 1}. Received: {list(layers)}")
    if not getattr(model, "output_hidden_states", False):
        raise InputError(
            "Features of layers need an encoder that returns its hidden states: BertEncoder(..., "
            "output_hidden_states=True)"
        )
    return _vectors(model, encoded, tuple(layers), batch_size, on_progress)


def encode_texts(model, texts: Iterable, max_seq_length: int | None = None) -> Iterator[EncodedText]:
    """Yields the tokens of texts or of pairs `(text, text)`, cut to `max_seq_length` as in Google's scripts."""
    config, vocabulary = model.config, model.vocabulary
    if vocabulary is None:
        raise InputError("The model has no vocabulary. Set model.vocabulary = load_vocabulary(path).")
    longest = config.max_sequence_length if max_seq_length is None else max_seq_length
    config.check_sequence_length(longest)
    if longest < 3:
        raise InputError(f"max_seq_length must be at least 3. Received: {longest}")
    tokenizer, special_tokens = python_tokenizer(vocabulary, config.do_lower_case), vocabulary.special_tokens
    for number, text in enumerate(iterate_column(texts, "texts"), start=1):
        parts = text if isinstance(text, list) and len(text) in (1, 2) else [text]
        first, *second = (tokenizer.encode(checked_text(part, f"text {number}")) for part in parts)
        second = second[0] if second else []
        room = longest - special_tokens.num_special(2 if second else 1)
        while len(first) + len(second) > room:
            (first if len(first) > len(second) else second).pop()
        between = special_tokens.num_between if second else 1
        ids = [vocabulary.cls_id, *first, *[vocabulary.sep_id] * between]
        segment_ids = [0] * len(ids)
        if second:
            ids += [*second, vocabulary.sep_id]
            segment_ids += [1] * (len(second) + 1)
        yield EncodedText(ids, segment_ids)


def _vectors(
    encoder, encoded: Iterable[EncodedText], layers, batch_size: int, on_progress: Callable[[int], None]
) -> Iterator[np.ndarray]:
    """Yields `[tokens, layers, H]` for each text; without `layers`, the sequence output as the only layer."""
    compute = _forward_function(encoder, layers)
    for window in _windows(encoded):
        by_length = sorted(range(len(window)), key=lambda index: len(window[index].ids))
        found: list = [None] * len(window)
        for start in range(0, len(window), batch_size):
            chosen = by_length[start : start + batch_size]
            batch = _batch([window[index] for index in chosen], encoder.config.max_sequence_length)
            vectors = np.asarray(compute(batch), "float32")
            for index, row in zip(chosen, vectors, strict=True):
                found[index] = row[: len(window[index].ids)].copy()
            on_progress(len(chosen))
        yield from found


def _forward_function(encoder, layers):
    """Returns a function from a batch to `[rows, columns, layers, H]`."""
    # Imported late, because it takes seconds.
    from keras import ops

    from keras_bert.accelerate.backend import on_tensorflow

    def chosen(outputs):
        if layers is None:
            return outputs["sequence_output"][:, :, None]
        return ops.stack([outputs["hidden_states"][1:][layer] for layer in layers], axis=2)

    if not on_tensorflow():
        return lambda batch: chosen(encoder.predict_on_batch(batch))
    import tensorflow as tf

    compute = tf.function(
        lambda inputs: chosen(encoder(inputs, training=False)), reduce_retracing=True, autograph=False
    )
    return lambda batch: compute({name: tf.constant(values) for name, values in batch.items()})


def _windows(encoded: Iterable[EncodedText]) -> Iterator[list[EncodedText]]:
    window: list[EncodedText] = []
    for text in encoded:
        window.append(text)
        if len(window) == _WINDOW:
            yield window
            window = []
    if window:
        yield window


def _batch(rows: Sequence[EncodedText], longest: int) -> dict[str, np.ndarray]:
    """Returns `input_ids`, `input_mask` and `segment_ids`, int32 `[rows, columns]`, padded with 0."""
    width = max(len(row.ids) for row in rows)
    width = min(-(-width // _STEP) * _STEP, longest)
    ids, mask, segments = np.zeros((3, len(rows), width), "int32")
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)] = row.ids
        mask[number, : len(row.ids)] = 1
        segments[number, : len(row.ids)] = row.segment_ids
    return {features.INPUT_IDS: ids, features.INPUT_MASK: mask, features.SEGMENT_IDS: segments}
