"""Exports a preprocessor and an encoder as TF-Hub defines them: two SavedModels on which others can build models.

They have the interface of TF-Hub's BERT models and replace those in `hub.KerasLayer(folder)`,
`keras.layers.TFSMLayer` and `tf.saved_model.load`. The encoder can be trained further. Because the interface is fixed,
inputs have TF Model Garden's names, and a mask instead of lengths. For TensorFlow Serving use `export_for_serving`.

Reference: TF-Hub, "Common SavedModel APIs for text", and its bert_en_uncased_preprocess/3 and
bert_en_uncased_L-12_H-768_A-12/4.
"""

import os
import tempfile

import keras
import tensorflow as tf

from keras_bert.accelerate.backend import plain_gradients, require_tensorflow
from keras_bert.checkpoints.pretrained import checkpoint_of, model_of
from keras_bert.models.encoder_base import Encoder
from keras_bert.program.atomic_output import atomic_folder
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.segments import pack_segments
from keras_bert.serving.graph.canonical_graph import make_canonical
from keras_bert.serving.graph.signature_inputs import check_shapes
from keras_bert.tokenization.kinds import graph_tokenizer, save_vocabulary

PREPROCESS, ENCODER = "preprocess", "encoder"
DEFAULT_SEQ_LENGTH = 128

# TF-Hub's name -> our name.
_NAMES = {**features.GARDEN_NAMES, features.INPUT_MASK: features.INPUT_MASK}
_SEGMENTS = (1, 2)


def export_hub_pair(model, path: str | os.PathLike, *, seq_length: int | None = None) -> tuple[str, str]:
    """Writes both `path/preprocess` and `path/encoder`, or neither, and returns the two folders.

    `preprocess` maps strings `[B]` to a dictionary of `input_word_ids`, `input_mask` and `input_type_ids`, int32
    `[B, seq_length]`. It has two functions: `tokenize`, strings `[B]` -> ids, int32 RaggedTensor `[B, words, pieces]`;
    and `bert_pack_inputs(segments, seq_length)`, which maps one or two such results, or ids `[B, pieces]`, to such a
    dictionary.

    `encoder` takes this dictionary, with rows of any length, and `training`. It returns a dictionary: `pooled_output`
    and `default`, float32 `[B, H]`; `sequence_output`, float32 `[B, S, H]`; `encoder_outputs`, a list of the outputs of
    all layers. It has `variables`, `trainable_variables` and `regularization_losses`. For `TFSMLayer` it has the
    signatures `encode` and `encode_in_training`, which take the dictionary only.

    Args:
        model: an `Encoder`, or a model that has one. Its `vocabulary` must be set.
        path: a new or empty folder.
        seq_length: the number of columns that `preprocess` returns; by default 128, or all positions of a shorter
            model.

    Raises:
        InputError: the model has no vocabulary, `seq_length` is out of range, or `path` cannot be written to.
    """
    require_tensorflow("Exporting for TF-Hub")
    if model.vocabulary is None:
        raise InputError("The model has no vocabulary. Set model.vocabulary = load_vocabulary(path).")
    if seq_length is None:
        seq_length = min(DEFAULT_SEQ_LENGTH, model.config.max_sequence_length)
    model.config.check_sequence_length(seq_length)
    if seq_length < 5:
        raise InputError(f"seq_length must be at least 5. Received: {seq_length}")
    getattr(model, "encoder", model).warn_if_untrained()
    encoder = model_of(Encoder, checkpoint_of(model), output_hidden_states=True, name="encoder")
    _number_generators(encoder)
    with atomic_folder(path) as folder, tempfile.TemporaryDirectory() as assets:
        save_vocabulary(model.vocabulary, assets)
        vocabulary_files = [os.path.join(assets, name) for name in sorted(os.listdir(assets))]
        for name, servable, signature in (
            (PREPROCESS, *_preprocess(encoder, seq_length)),
            (ENCODER, *_encoder(encoder)),
        ):
            servable.vocabulary_files = [tf.saved_model.Asset(path) for path in vocabulary_files]
            tf.saved_model.save(servable, os.path.join(folder, name), signatures=signature)
            make_canonical(os.path.join(folder, name))
    return os.path.join(os.fspath(path), PREPROCESS), os.path.join(os.fspath(path), ENCODER)


def _number_generators(model) -> None:
    """Numbers the random states of a model's dropout, which determines their names and initial values.

    Keras numbers them throughout a process, so the same model would give different bytes in every export.
    """
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.Dropout) and layer.rate]
    for number, layer in enumerate(layers):
        start = keras.ops.array([number, 0], layer.seed_generator.state.dtype)
        layer.seed_generator.state = keras.Variable(start, trainable=False, name=f"dropout_{number}")


def _preprocess(model, default_length: int):
    """Returns the object to save, and its signature for callers that need one: `text` -> the dictionary."""
    vocabulary = model.vocabulary
    tokenizer = graph_tokenizer(vocabulary, model.config.do_lower_case)
    is_continuation = tf.constant([vocabulary.continues_word(token) for token in vocabulary.tokens])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="sentences")], autograph=False)
    def tokenize(sentences):
        return group_words(tokenizer.tokenize(sentences), is_continuation)

    @tf.function(autograph=False)
    def bert_pack_inputs(inputs, seq_length=default_length):
        segments = [segment if segment.ragged_rank == 1 else segment.merge_dims(1, 2) for segment in inputs]
        return _packed(segments, seq_length, vocabulary)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="sentences")], autograph=False)
    def preprocess(sentences):
        return _packed([tokenizer.tokenize(sentences)], tf.constant(default_length), vocabulary)

    for rank in (1, 2):
        segment = tf.RaggedTensorSpec([None] * (rank + 1), tf.int32, ragged_rank=rank)
        for number in _SEGMENTS:
            bert_pack_inputs.get_concrete_function([segment] * number, tf.TensorSpec([], tf.int32))
            bert_pack_inputs.get_concrete_function([segment] * number)
    # A tf.Module does not accept attributes with these names; a Checkpoint does.
    servable = tf.train.Checkpoint()
    servable.__call__ = preprocess
    servable.tokenize = tokenize
    servable.bert_pack_inputs = bert_pack_inputs
    servable.tokenizer = tokenizer
    return servable, preprocess


def group_words(ids: tf.RaggedTensor, is_continuation: tf.Tensor) -> tf.RaggedTensor:
    """Groups the pieces of each text into words: int32 `[B, pieces]` -> `[B, words, pieces]`.

    Example, where 7 is "##es": [[5, 6, 7], []] -> [[[5], [6, 7]], []]
    """
    begins = ~tf.gather(is_continuation, ids.values)
    words_of_rows = tf.reduce_sum(ids.with_values(tf.cast(begins, tf.int64)), axis=1)
    numbers = tf.cumsum(tf.cast(begins, tf.int64)) - 1
    words = tf.RaggedTensor.from_value_rowids(ids.values, numbers, nrows=tf.reduce_sum(words_of_rows), validate=False)
    return tf.RaggedTensor.from_row_lengths(words, words_of_rows, validate=False)


def _packed(segments: list, seq_length, vocabulary) -> dict:
    """Packs segments into rows of `seq_length` columns, an int32 scalar."""
    shortest = vocabulary.special_tokens.num_special(len(segments))
    check = tf.debugging.assert_greater_equal(
        seq_length, shortest, f"seq_length must be at least {shortest}: room for [CLS] and [SEP]"
    )
    with tf.control_dependencies([check] if check is not None else []):
        packed = pack_segments(segments, tf.identity(seq_length), vocabulary, pad_to_max=False)
    missing = seq_length - tf.shape(packed[features.INPUT_IDS])[1]

    fillings = {features.INPUT_IDS: vocabulary.pad_id, features.INPUT_MASK: 0, features.SEGMENT_IDS: 0}
    return {
        hub_name: tf.pad(packed[name], [[0, 0], [0, missing]], constant_values=fillings[name])
        for hub_name, name in _NAMES.items()
    }


def _encoder(model):
    """Returns the object to save, and its signature for callers that need one: all outputs except for the list."""
    rows = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in _NAMES}

    def outputs_of(inputs, training: bool) -> dict:
        with plain_gradients(), tf.control_dependencies(check_shapes(inputs)):
            inputs = {name: tf.identity(value) for name, value in inputs.items()}
            outputs = model({_NAMES[name]: value for name, value in inputs.items()}, training=training)
        pooled = tf.cast(outputs["pooled_output"], tf.float32)
        return {
            "pooled_output": pooled,
            "default": pooled,
            "sequence_output": tf.cast(outputs["sequence_output"], tf.float32),
            "encoder_outputs": [tf.cast(hidden, tf.float32) for hidden in outputs["hidden_states"][1:]],
        }

    @tf.function(autograph=False)
    def call(inputs, training=False):
        return outputs_of(inputs, bool(training))

    @tf.function(input_signature=[rows], autograph=False)
    def encode(inputs):
        return outputs_of(inputs, training=False)

    @tf.function(input_signature=[rows], autograph=False)
    def encode_in_training(inputs):
        return outputs_of(inputs, training=True)

    @tf.function(input_signature=[rows], autograph=False)
    def named_outputs(inputs):
        return {name: value for name, value in encode(inputs).items() if name != "encoder_outputs"}

    for training in (True, False):
        call.get_concrete_function(rows, training=training)
    servable = tf.train.Checkpoint()
    servable.__call__ = call
    servable.encode = encode
    servable.encode_in_training = encode_in_training
    servable.variables = [variable.value for variable in model.variables]
    servable.trainable_variables = [variable.value for variable in model.trainable_variables]
    servable.regularization_losses = []
    return servable, named_outputs
