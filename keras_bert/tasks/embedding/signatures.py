"""`SentenceEncoder` and `BertEncoder` as signatures of a SavedModel, and as ONNX operations."""

import dataclasses
import re

import tensorflow as tf

from keras_bert.config.bert_config import check_pooling
from keras_bert.config.signature_options import SignatureOptions
from keras_bert.program.errors import InputError
from keras_bert.serving.graph.onnx_heads import BATCH, LENGTH, OUTPUT, encoder_of_rows, inputs_of, onnx_encoder
from keras_bert.serving.graph.onnx_layers import array, dense, stored_name
from keras_bert.serving.graph.onnx_sequences import PackedSequences, RowSequences
from keras_bert.serving.graph.row_groups import run_rows
from keras_bert.serving.graph.signature_inputs import IDS, model_inputs, row_signatures, signature, with_prompt
from keras_bert.serving.graph.tokenize import token_rows

_IN_SIGNATURES = re.compile(r"\w{1,50}", re.ASCII)  # names of prompts that a signature's name can have


def embedding_signatures(model, tokenizer, options: SignatureOptions) -> dict:
    """Returns the signatures of a `BertEncoder`: vectors of texts and of their tokens.

    Inputs: `text`, strings `[B]`, and for pairs `text_b`, strings `[B]`; an empty `text_b` means a single text. Or
    `input_ids`, for pairs `segment_ids`, int32 `[B, S]`, and `lengths`, int32 `[B]`.

    Output: `embedding`, float32 `[B, H]`, as `text_vectors.sentence_embeddings` computes it.

    `raw_outputs` has the inputs of `tokens`, and returns the vectors as `outputs`.

    `embed` is the same as `serving_default`. `score` takes `text` and `text_b` and returns the cosine `score`, float32
    `[B]`.

    `features` takes `text` and returns `vectors`, float32 `[B, S, H]`, one for each token; `lengths`, int32 `[B]`, the
    number of tokens of each text, including [CLS] and [SEP]; and `starts` and `ends`, int32 `[B, S]`, the bytes of the
    text that each token came from, -1 for [CLS], [SEP] and padding. Vectors of padding are 0.
    """
    pooling = options.pooling or "mean"
    check_pooling(model.config, pooling)
    if options.prompt:
        raise InputError(f"Only a SentenceEncoder has prompts. Received: prompt={options.prompt!r}. Leave it out.")

    def vectors_of(rows):
        hidden = tf.cast(model(model_inputs(*rows), training=False)["sequence_output"], tf.float32)
        return model.pool(hidden, rows[1], pooling)

    normalize = options.normalize is not False
    text_signatures = _text_signatures(model, tokenizer, options, vectors_of, model.config.hidden_size, normalize)
    return {**text_signatures, "features": _features(model, tokenizer, options)}


def sentence_signatures(model, tokenizer, options: SignatureOptions) -> dict:
    """Returns the signatures of a `SentenceEncoder`: see `embedding_signatures`, without those of tokens and pairs.

    `serving_default`, `embed` and `score` put the prompt of the export's options before each text, by default the
    model's default prompt. Each of the model's prompts has a signature too: `embed_query` for the prompt "query".
    """
    if options.pooling is not None:
        raise InputError("A SentenceEncoder has its own pooling. Export it without pooling.")
    if options.text_pairs:
        raise InputError("A SentenceEncoder takes single texts. Export it without text_pairs.")

    def vectors_of(rows):
        return tf.cast(model(model_inputs(*rows), training=False), tf.float32)

    normalize = model.normalize if options.normalize is None else options.normalize
    arguments = (model, tokenizer, options, vectors_of, model.embedding_size, normalize)
    prompt = model.prompt(options.prompt)
    made = _text_signatures(*arguments, prompt)
    for name in filter(_IN_SIGNATURES.fullmatch, model.prompts):
        own = model.prompt(name)
        made[f"embed_{name}"] = made["embed"] if own == prompt else _text_signatures(*arguments, own)["embed"]
    return made


def _text_signatures(model, tokenizer, options, vectors_of, size: int, normalize: bool, prompt: str = "") -> dict:
    """Returns the signatures `serving_default`, `embed`, `tokens`, `raw_outputs` and `score`.

    `vectors_of` makes float32 `[B, size]` of ids, mask and segment numbers, int32 `[B, S]`.
    """

    def pool(*rows):
        vectors = vectors_of(rows)
        return _unit_length(vectors) if normalize else vectors

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def run(*rows):
        return run_rows(pool, rows, size)

    def embed(vectors):
        """Returns the vectors of texts. The vector of a long text may be the mean over its windows."""
        return {"embedding": _unit_length(vectors) if normalize else vectors}

    made = row_signatures(model, tokenizer.tokenize, options, run, embed, prompt=prompt)
    if getattr(model, "is_static", False):
        made["serving_default"] = _static_signature(model, tokenizer, options, prompt, embed)
    of_single_text = made["serving_default"]
    if options.text_pairs:
        single = dataclasses.replace(options, text_pairs=False)
        of_single_text = row_signatures(model, tokenizer.tokenize, single, run, embed)["serving_default"]

    @signature(text=([None], tf.string), text_b=([None], tf.string))
    def score(text, text_b):
        first, second = tf.split(_unit_length(of_single_text(tf.concat([text, text_b], 0))["embedding"]), 2)
        return {"score": tf.reduce_sum(first * second, axis=1)}

    return {**made, "embed": made["serving_default"], "score": score}


def _static_signature(model, tokenizer, options, prompt: str, arrays):
    """Returns the signature of `text` of a static model, which looks tokens up without making rows of them."""
    room = options.max_seq_length - model.vocabulary.special_tokens.num_special(1)

    @signature(text=([None], tf.string))
    def of_text(text):
        ids = tokenizer.tokenize(with_prompt(prompt, text))[:, :room]
        return arrays(tf.cast(model.vectors_of_ids(ids), tf.float32))

    return of_text


def _unit_length(vectors):
    """Divides vectors `[B, D]` by their lengths. A vector of zeros stays one."""
    return tf.math.l2_normalize(vectors, axis=-1, epsilon=1e-24)


def _features(model, tokenizer, options: SignatureOptions):
    """Returns the signature of the vectors of all tokens."""
    hidden_size = model.config.hidden_size

    def vectors_of(input_ids, input_mask, segment_ids):
        hidden = model(model_inputs(input_ids, input_mask, segment_ids), training=False)["sequence_output"]
        return tf.where(input_mask[:, :, tf.newaxis] > 0, tf.cast(hidden, tf.float32), 0.0)

    @signature(text=([None], tf.string))
    def features(text):
        rows = tokenizer.tokenize_with_offsets(text)
        # The model cannot run on rows without columns.
        found = token_rows(*rows, model.vocabulary, options.max_seq_length, shortest=1)
        input_ids = found.pop("input_ids")
        mask = tf.sequence_mask(found["lengths"], tf.shape(input_ids)[1], tf.int32)
        return {"vectors": run_rows(vectors_of, (input_ids, mask, tf.zeros_like(mask)), None, hidden_size), **found}

    return features


_SMALLEST_SQUARE = 1e-24  # see `text_pooling.unit_length`


def sentence_encoder(graph, model):
    return {OUTPUT: (text_vectors(graph, model), [BATCH, model.embedding_size])}


def token_vectors(graph, model):
    """Returns the vectors of all tokens, as the encoders of transformers do. What pools them is outside of the file."""
    tokens = onnx_encoder(graph, model.encoder, inputs_of(model)).sequence_output()
    return {"last_hidden_state": (tokens, [BATCH, LENGTH, model.config.hidden_size])}


def encoder(graph, model):
    encoder = onnx_encoder(graph, model, inputs_of(model))
    tokens = encoder.sequence_output()
    width = model.config.hidden_size
    return {
        "sequence_output": (tokens, [BATCH, LENGTH, width]),
        "pooled_output": (encoder.pooled(tokens), [BATCH, width]),
    }


def text_vectors(graph, model) -> str:
    """Returns the vectors of texts, `[B, D]`; see `TextPooling.text_vectors`. Of packed rows, `[B * K, D]`."""
    head = model.sentence_head
    encoder = encoder_of_rows(graph, model)
    if head.pooling == ("cls",):
        vectors = encoder.vectors_of_sequences(encoder.vectors_at()[0])
    else:
        hidden = encoder.sequence_output()
        sequences = (PackedSequences if encoder.is_packed else RowSequences)(graph)
        vectors = [sequences.pooled(name, hidden) for name in head.pooling]
        vectors = vectors[0] if len(vectors) == 1 else graph.node("Concat", *vectors, axis=1)
    for layer in head.dense_layers:
        outputs = graph.activation(layer.activation_name, dense(graph, layer, vectors, exact=True))
        vectors = _with_shortcut(graph, layer, vectors, outputs) if hasattr(layer, "residual") else outputs
    if not head.normalize:
        return vectors
    squares = graph.node("ReduceSum", graph.node("Mul", vectors, vectors), axes=[1], keepdims=1)
    return graph.node("Div", vectors, graph.node("Sqrt", graph.node("Max", squares, graph.number(_SMALLEST_SQUARE))))


def _with_shortcut(graph, layer, inputs: str, outputs: str) -> str:
    """Returns the outputs of a `ResidualDense`."""
    if layer.residual is not None:
        inputs = graph.dense(f"{stored_name(layer)}/residual", inputs, array(layer.residual), None, True)
    return graph.node("Add", outputs, inputs)
