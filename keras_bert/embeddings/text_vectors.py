"""Vectors of texts: one for each text (sentence embeddings), or one for each token and layer (features).

Texts are computed in batches of similar length and come back in their order; only a window of them is in memory.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.config.poolings import check_pooling
from keras_bert.program.errors import InputError
from keras_bert.program.number_checks import check_numbers
from keras_bert.records import features
from keras_bert.tokenization.kinds import python_tokenizer
from keras_bert.tokenization.user_inputs import checked_text, iterate_column

_WINDOW = 4096  # texts that are sorted by length together
_STEP = 16  # rows are padded to multiples of it, so that few different lengths occur


class EncodedText(NamedTuple):
    """A row of tokens.

    Attributes:
        ids: the ids, [CLS] and [SEP] included.
        segment_ids: the segment of each.
        is_first: whether the row is the first of its text; the others are further windows of a long text.
    """

    ids: list[int]
    segment_ids: list[int]
    is_first: bool = True


def sentence_embeddings(
    model: Any,
    texts: Iterable[str],
    *,
    pooling: str | None = None,
    normalize: bool | None = None,
    prompt: str | None = None,
    dimensions: int | None = None,
    batch_size: int = 32,
    max_seq_length: int | None = None,
    on_progress: Callable[[int], None] = lambda num_texts: None,
) -> np.ndarray:
    """Returns one vector for each text.

    Args:
        model: a `SentenceEncoder`, which knows its pooling; or a `BertEncoder` or a model that has one. It must have a
            vocabulary.
        texts: strings; a single one is a list of one.
        pooling: for models other than `SentenceEncoder`: one of `config.POOLINGS`; by default `mean`.
        normalize: whether to divide each vector by its length, so that products are cosines. By default a
            `SentenceEncoder` decides, and vectors of other models are divided.
        prompt: the name of one of the model's prompts, which is put before each text; "" for none. By default the
            model's default prompt.
        dimensions: the number of first components to keep, for models that were trained with `Matryoshka`. By default
            all.
        batch_size: texts computed at once.
        max_seq_length: longer texts are cut to this many tokens. The default is that of the `SentenceEncoder`, or the
            number of the model's positions.
        on_progress: called after each batch with the number of texts in it.

    Returns:
        float32 `[texts, D]`.

    Raises:
        InputError: the model has no vocabulary, an argument is none of those above, the model was trained for another
            pooling, or a vector has values that are not numbers.

    Example:
        encoder = SentenceEncoder.from_pretrained("all-MiniLM-L6-v2")
        vectors = sentence_embeddings(encoder, ["A cat sits on the mat.", "A kitten is on a rug."])
        vectors @ vectors.T  # similarities
    """
    prefix = ""
    if hasattr(model, "embedding_size"):  # a `SentenceEncoder`, or one that was loaded from an export
        if pooling is not None:
            raise InputError(
                f"A SentenceEncoder has its own pooling, {' + '.join(model.pooling)}. Received: pooling={pooling!r}. "
                "Leave it out, or load the model with SentenceEncoder.from_pretrained(path, pooling=...)."
            )
        prefix, size = model.prompt(prompt), model.embedding_size
        max_seq_length = model.max_seq_length if max_seq_length is None else max_seq_length
        compute = _forward_function(model, "vectors", lambda outputs, inputs: outputs)
    else:
        pooling = pooling or "mean"
        check_pooling(model.config, pooling)
        if prompt:
            raise InputError(f"Only a SentenceEncoder has prompts. Received: prompt={prompt!r}. Leave it out.")
        encoder, size = getattr(model, "encoder", model), model.config.hidden_size
        normalize = True if normalize is None else normalize

        def pooled(outputs, inputs):
            return encoder.pool(outputs["sequence_output"], inputs[features.INPUT_MASK], pooling)

        compute = _forward_function(encoder, pooling, pooled)
    if dimensions is not None and not 1 <= dimensions <= size:
        raise InputError(f"dimensions must be between 1 and {size}, the size of the vectors. Received: {dimensions}")
    if _has_graph_of_texts(model):
        outputs = _outputs_of_graph(model, texts, max_seq_length, prefix, on_progress)
    else:
        encoded = encode_texts(model, texts, max_seq_length, prefix, getattr(model, "doc_stride", None))
        outputs = list(_text_outputs(compute, model.config, encoded, batch_size, on_progress))
    result = np.asarray(outputs, "float32").reshape(-1, size)[:, :dimensions]
    # The first numbers of a vector of length 1, and the mean of several, are shorter.
    if normalize or (normalize is None and model.normalize):
        # np.linalg.norm would take three times as long.
        result /= np.maximum(np.sqrt(np.einsum("nd,nd->n", result, result)), 1e-12)[:, None]
    return result


def search_vectors(model, texts: Iterable[str], role: str, **options) -> np.ndarray:
    """Returns vectors of length 1 for texts in a role of a search, "query" or "document".

    If the model has a prompt for this role, it is put before each text. The options are those of `sentence_embeddings`.
    """
    if hasattr(model, "embedding_size"):
        options["prompt"] = model.prompt_for(role)
    return sentence_embeddings(model, texts, normalize=True, **options)


def token_features(
    model,
    encoded: Iterable[EncodedText],
    layers: Sequence[int] = (-1, -2, -3, -4),
    batch_size: int = 32,
    on_progress: Callable[[int], None] = lambda num_texts: None,
) -> Iterator[np.ndarray]:
    """Yields, for each text, float32 `[tokens, layers, H]`: the outputs of these layers; -1 is the last layer.

    Args:
        model: a `BertEncoder` made with `output_hidden_states=True`.
        encoded: what `encode_texts` gives.
        layers: numbers as in Google's `extract_features.py`: -1 is the last layer and 0 the first.
        on_progress: called after each batch with the number of texts in it.

    Raises:
        InputError: a layer is not there, or the encoder does not return its layers.

    Reference: Devlin et al., 2018, section 5.3: the last four layers, joined, are the best features for NER.
    """
    count = model.config.num_hidden_layers
    wrong = [layer for layer in layers if not -count <= layer < count]
    if wrong or not layers:
        raise InputError(f"layers must be between {-count} and {count - 1}, at least one. Received: {list(layers)}")
    if not getattr(model, "output_hidden_states", False):
        raise InputError(
            "Features of layers need an encoder that returns them: BertEncoder(..., output_hidden_states=True)"
        )
    # Only now, because it takes seconds.
    from keras import ops

    def chosen_layers(outputs, inputs):
        return ops.stack([outputs["hidden_states"][1:][layer] for layer in layers], axis=2)

    compute = _forward_function(model, ("layers", *layers), chosen_layers)
    outputs = _outputs(compute, model.config, encoded, batch_size, on_progress)
    return (output[:length].copy() for output, length in outputs)


def encode_texts(
    model, texts: Iterable, max_seq_length: int | None = None, prefix: str = "", doc_stride: int | None = None
) -> Iterator[EncodedText]:
    """Yields the tokens of texts, or of pairs `(text, text)`, cut to a length as Google's scripts do.

    Args:
        model: a model with a vocabulary.
        texts: strings, or pairs of strings.
        max_seq_length: the largest number of tokens in a row; None for the number of the model's positions.
        prefix: is put before each first text.
        doc_stride: single texts that are too long become several windows, which begin this many tokens apart. None:
            they are cut at their end.
    """
    config, vocabulary = model.config, model.vocabulary
    longest = _checked_length(model, max_seq_length)
    tokenizer, special_tokens = python_tokenizer(vocabulary, config.do_lower_case), vocabulary.special_tokens
    for number, text in enumerate(iterate_column(texts, "texts"), start=1):
        parts = text if isinstance(text, list) and len(text) in (1, 2) else [text]
        parts = [checked_text(part, f"text {number}") for part in parts]
        first, *second = map(tokenizer.encode, [prefix + parts[0], *parts[1:]])
        second = list(second[0]) if second else []
        room = longest - special_tokens.num_special(2 if second else 1)
        if doc_stride and not second and len(first) > room:
            for begin, end in _window_places(len(first), room, min(doc_stride, room)):
                ids = [vocabulary.cls_id, *first[begin:end], vocabulary.sep_id]
                yield EncodedText(ids, [0] * len(ids), is_first=begin == 0)
            continue
        while len(first) + len(second) > room:
            (first if len(first) > len(second) else second).pop()
        between = special_tokens.num_between if second else 1
        ids = [vocabulary.cls_id, *first, *[vocabulary.sep_id] * between]
        segment_ids = [0] * len(ids)
        if second:
            ids += [*second, vocabulary.sep_id]
            segment_ids += [1] * (len(second) + 1)
        yield EncodedText(ids, segment_ids)


def _checked_length(model, max_seq_length: int | None) -> int:
    """Returns the largest number of tokens in a row. Raises `InputError` if the model cannot take it, or no texts."""
    if model.vocabulary is None:
        raise InputError("The model has no vocabulary. Set model.vocabulary = load_vocabulary(path).")
    longest = model.config.max_sequence_length if max_seq_length is None else max_seq_length
    model.config.check_sequence_length(longest)
    if longest < 3:
        raise InputError(f"max_seq_length must be at least 3. Received: {longest}")
    return longest


def _window_places(length: int, room: int, stride: int) -> list[tuple[int, int]]:
    """Returns where the windows of a long text begin and end.

    >>> _window_places(6, room=4, stride=2), _window_places(7, room=4, stride=2)
    ([(0, 4), (2, 6)], [(0, 4), (2, 6), (4, 7)])
    """
    number = 1 + max(-((room - length) // stride), 0)
    return [(begin, min(begin + room, length)) for begin in range(0, number * stride, stride)]


def _text_outputs(
    compute: Callable, config: BertConfig, encoded: Iterable[EncodedText], batch_size: int, on_progress: Callable
) -> Iterator[np.ndarray]:
    """Yields the output of each text: the mean over its windows, weighted by their numbers of tokens."""
    encoded, rows = itertools.tee(encoded)
    total, weight = np.zeros(()), 0
    outputs = _outputs(compute, config, encoded, batch_size, on_progress)
    for row, (output, length) in zip(rows, outputs, strict=True):
        if row.is_first and weight:
            yield total / weight
            total, weight = np.zeros(()), 0
        total = total + output * length
        weight += length
    if weight:
        yield total / weight


def _outputs(
    compute: Callable, config: BertConfig, encoded: Iterable[EncodedText], batch_size: int, on_progress: Callable
) -> Iterator[tuple[np.ndarray, int]]:
    """Yields for each text its output, a float32 array, and its number of tokens.

    Args:
        compute: a batch of features -> the outputs, with one entry on the first axis for each text.
    """
    for window in _windows(encoded):
        by_length = sorted(range(len(window)), key=lambda index: len(window[index].ids))
        found: list = [None] * len(window)
        for start in range(0, len(window), batch_size):
            chosen = by_length[start : start + batch_size]
            batch = _batch([window[index] for index in chosen], config.max_sequence_length)
            outputs = np.asarray(compute(batch), "float32")
            check_numbers(outputs, "row of a batch")
            for index, output in zip(chosen, outputs, strict=True):
                found[index] = output, len(window[index].ids)
            on_progress(sum(window[index].is_first for index in chosen))
        yield from found


def _forward_function(model, key, choose: Callable) -> Callable:
    """Returns a function from features to `choose(outputs of the model, features)`.

    On TensorFlow it is compiled, and the model keeps it under `key`: repeated calls do not trace it again.
    """
    if hasattr(model, "engine"):  # a loaded export
        return lambda batch: choose(model.engine.run(batch), batch)
    # Only now, because these take seconds.
    from keras_bert.accelerate.backend import on_tensorflow
    from keras_bert.accelerate.traced_functions import traced

    if not on_tensorflow():
        return lambda batch: choose(model.predict_on_batch(batch), batch)
    import tensorflow as tf

    compute = traced(model, ("vectors", key), lambda inputs: choose(model(inputs, training=False), inputs))
    return lambda batch: compute({name: tf.constant(values) for name, values in batch.items()})


def _has_graph_of_texts(model) -> bool:
    """Whether the vectors of texts are computed in one graph from text to vector, as for static models."""
    if not getattr(model, "is_static", False):
        return False
    # Only now, because it takes seconds, and loaded exports do without it.
    from keras_bert.accelerate.backend import on_tensorflow

    return on_tensorflow()


def _outputs_of_graph(
    model, texts: Iterable[str], max_seq_length: int | None, prefix: str, on_progress: Callable
) -> np.ndarray:
    """Returns the vectors of texts of a static model. All processors work, each on a batch of its own."""
    # Only now, because it takes seconds.
    import tensorflow as tf

    compute = _graph_of_texts(model, _checked_length(model, max_seq_length))

    def vectors(batch: list[str]) -> np.ndarray:
        return compute(tf.constant([prefix + text for text in batch] if prefix else batch)).numpy()

    checked = (checked_text(text, f"text {number}") for number, text in enumerate(iterate_column(texts, "texts"), 1))
    batches = iter(lambda: list(itertools.islice(checked, _WINDOW)), [])
    found = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(vectors, batches):
            on_progress(len(result))
            check_numbers(result)
            found.append(result)
    return np.concatenate(found) if found else np.zeros((0, model.embedding_size), "float32")


def _graph_of_texts(model, longest: int) -> Callable:
    """Returns a traced function from texts `[B]` to vectors of a static model."""
    # Only now, because these take seconds.
    import tensorflow as tf

    from keras_bert.accelerate.traced_functions import traced
    from keras_bert.tokenization.kinds import graph_tokenizer

    room = longest - model.vocabulary.special_tokens.num_special(1)

    def compute(texts):
        tokenizer = graph_tokenizer(model.vocabulary, model.config.do_lower_case)
        return model.vectors_of_ids(tokenizer.tokenize(texts)[:, :room])

    return traced(model, ("texts", longest), compute, [tf.TensorSpec([None], tf.string)])


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
