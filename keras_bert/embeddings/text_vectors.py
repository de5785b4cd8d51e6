"""Vectors of texts: one for each text (sentence embeddings), or one for each token and layer (features).

Texts are computed in batches of similar length and come back in their order; only a window of them is in memory.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from keras_bert.config.bert_config import check_pooling
from keras_bert.program.errors import InputError
from keras_bert.program.long_work import progress_bar
from keras_bert.program.number_checks import check_numbers
from keras_bert.program.options import check_whole
from keras_bert.program.user_inputs import checked_text, iterate_column
from keras_bert.records import features
from keras_bert.records.token_rows import TokenRows
from keras_bert.tasks.base import mean_over_windows
from keras_bert.tasks.prediction import forward_function, outputs_of_rows, run_batches
from keras_bert.tasks.text_rows import TextRows, checked_length, each_text, in_parts, text_rows, tokenizer_of

_WINDOW = 4096  # texts that are sorted by length together


class EncodedText(NamedTuple):
    """A row of tokens: the ids, [CLS] and [SEP] included, and the segment of each."""

    ids: list[int]
    segment_ids: list[int]


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
        normalize, prompt, dimensions, batch_size, max_seq_length, on_progress: as for `SentenceEncoder.encode`. By
            default the vectors of other models are divided by their length; they may have all positions of the model.

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
        forward = forward_function(model)
    else:
        forward, size = _pooled(model, pooling or "mean"), model.config.hidden_size
        if prompt:
            raise InputError(f"Only a SentenceEncoder has prompts. Received: prompt={prompt!r}. Leave it out.")
        normalize = True if normalize is None else normalize
    check_whole("dimensions", dimensions, at_least=1, at_most=size, or_none=True)
    if getattr(model, "is_static", False) and _on_tensorflow():
        found = _outputs_of_graph(model, texts, max_seq_length, prefix, on_progress)
    else:
        parts = _parts(model, texts, max_seq_length, prefix, getattr(model, "doc_stride", None))
        found = (_vectors(forward, part, batch_size, on_progress) for part in parts)
    result = np.concatenate([np.zeros((0, size), "float32"), *found])[:, :dimensions]
    # The first numbers of a vector of length 1, and the mean of several, are shorter.
    if normalize or (normalize is None and model.normalize):
        # np.linalg.norm would take three times as long.
        result /= np.maximum(np.sqrt(np.einsum("nd,nd->n", result, result)), 1e-12)[:, None]
    return result


def _pooled(model, pooling: str) -> Callable:
    """Returns the vectors of texts by an encoder, or the encoder of a model, as a function of a batch."""
    check_pooling(model.config, pooling)
    encoder = getattr(model, "encoder", model)

    def pooled(outputs, inputs):
        return encoder.pool(outputs["sequence_output"], inputs[features.INPUT_MASK], pooling)

    return forward_function(encoder, key=("pooled", pooling), choose=pooled)


def search_vectors(model, texts: Sequence[str], role: str, **options) -> np.ndarray:
    """Returns vectors of length 1 for texts in a role of a search, "query" or "document".

    If the model has a prompt for this role, it is put before each text. The options are those of `sentence_embeddings`.
    Progress is shown if this takes longer than a moment.
    """
    if hasattr(model, "embedding_size"):
        options["prompt"] = model.prompt_for(role)
    with progress_bar(total=len(texts), unit=" texts", mininterval=1, delay=2) as bar:
        return sentence_embeddings(model, texts, normalize=True, on_progress=bar.update, **options)


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

    Raises `InputError` if a layer is not there, or the encoder does not return its layers.

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

    forward = forward_function(model, key=("layers", *layers), choose=chosen_layers)

    def features_of_tokens():
        for window in in_parts(encoded, _WINDOW):
            rows = TokenRows.of([row.ids for row in window], segment_ids=[row.segment_ids for row in window])
            batches = run_batches(forward, rows, batch_size, on_progress=on_progress)
            outputs = outputs_of_rows(batches, rows, has_token_outputs=True)
            for first, last in itertools.pairwise(rows.splits):
                yield outputs[first:last].astype("float32")

    return features_of_tokens()


def encode_texts(model, texts: Iterable, max_seq_length: int | None = None) -> Iterator[EncodedText]:
    """Yields the tokens of texts, or of pairs `(text, text)`, cut as by Google's scripts; None: to all positions."""
    for rows, *_ in _parts(model, texts, max_seq_length):
        ids, segment_ids = (rows.tokens[name].tolist() for name in (features.INPUT_IDS, features.SEGMENT_IDS))
        for first, last in itertools.pairwise(rows.splits.tolist()):
            yield EncodedText(ids[first:last], segment_ids[first:last])


def _parts(
    model, texts: Iterable, max_seq_length: int | None, prefix: str = "", doc_stride: int | None = None
) -> Iterator[TextRows]:
    """Yields the rows of at most `_WINDOW` texts, or of as many pairs, at a time.

    With `doc_stride`, single texts that are too long become several windows, which begin this many tokens apart.
    """
    tokenizer = tokenizer_of(model)
    longest = checked_length(model.config, max_seq_length)
    for _, found in itertools.groupby(_checked(texts, prefix), len):
        for part in in_parts(found, _WINDOW):
            first, *second = zip(*part, strict=True)
            yield text_rows(first, second[0] if second else None, tokenizer, longest, doc_stride)


def _checked(texts: Iterable, prefix: str) -> Iterator[list[str]]:
    """Yields each text, or pair of texts, as a list."""
    for number, text in enumerate(iterate_column(texts, "texts"), start=1):
        parts = text if isinstance(text, list) and len(text) in (1, 2) else [text]
        first, *second = (checked_text(part, f"text {number}") for part in parts)
        yield [prefix + first, *second]


def _vectors(forward: Callable, part: TextRows, batch_size: int, on_progress: Callable) -> np.ndarray:
    """Returns the vectors of texts, float32 `[texts, D]`: the means over their windows, weighted by tokens."""
    is_first = np.diff(part.texts, prepend=-1) > 0

    def batches():
        for rows, outputs in run_batches(forward, part.rows, batch_size):
            yield rows, outputs
            on_progress(int(is_first[rows].sum()))

    outputs = outputs_of_rows(batches(), part.rows).astype("float32")
    return outputs if is_first.all() else mean_over_windows(outputs, part.texts, part.rows.lengths)


def _on_tensorflow() -> bool:
    # Only now, because it takes seconds, and loaded exports do without it.
    from keras_bert.accelerate.backend import on_tensorflow

    return on_tensorflow()


def _outputs_of_graph(
    model, texts: Iterable[str], max_seq_length: int | None, prefix: str, on_progress: Callable
) -> Iterator[np.ndarray]:
    """Yields the vectors of texts of a static model, by one graph from text to vector. All processors work."""
    # Only now, because these take seconds.
    import tensorflow as tf

    from keras_bert.accelerate.traced_functions import traced

    tokenizer_of(model)  # raises without a vocabulary
    longest = checked_length(model.config, max_seq_length)
    room = longest - model.tokenizer.special_tokens.num_special(1)

    def vectors_of_texts(texts):
        return model.vectors_of_ids(model.tokenizer.graph().tokenize(texts)[:, :room])

    compute = traced(model, ("texts", longest), vectors_of_texts, [tf.TensorSpec([None], tf.string)])

    def vectors(batch: list[str]) -> np.ndarray:
        return compute(tf.constant([prefix + text for text in batch] if prefix else batch)).numpy()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(vectors, in_parts(each_text(texts), _WINDOW)):
            on_progress(len(result))
            check_numbers(result)
            yield result
