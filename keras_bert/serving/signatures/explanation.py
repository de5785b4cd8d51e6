"""The signature `explain` of an exported classifier: integrated gradients in the graph."""

import tensorflow as tf

from keras_bert.models.sequence_classifier import SequenceClassifier
from keras_bert.program.errors import InputError
from keras_bert.serving.signatures.row_groups import compute_in_groups, run_rows
from keras_bert.serving.signatures.signature_inputs import (
    SignatureOptions,
    choose_rows,
    model_inputs,
    packer,
    signature,
    trim,
)
from keras_bert.tasks.explanation.attributions import quadrature
from keras_bert.tasks.explanation.gradients import baseline_of, gradient_scores, is_kept

_STEPS = 50
# A token needs about this many times the memory of one in a forward pass: the gradient keeps what each layer computed.
_MEMORY_OF_GRADIENT = 4


def explain_signature(model, tokenizer, options: SignatureOptions):
    """Returns the signature that explains the most probable label, or the score, as `explain(texts)` does.

    Inputs: `text`, strings `[B]`, and for pairs `text_b`, strings `[B]`.

    Outputs: `tokens`, strings `[B, S]`, and their `scores`, float32 `[B, S]`; `starts` and `ends`, int32 `[B, S]`, the
    bytes of each token in its text; `texts`, int32 `[B, S]`, 0 for `text` and 1 for `text_b`; [CLS], [SEP] and padding
    have -1. `label`, strings `[B]`; `output` and `baseline_output`, float32 `[B]`: the logit of the label for the text,
    and for the baseline of [PAD]s.

    Raises:
        InputError: the model is no classifier, or cuts texts into windows.
    """
    _check(model, options)
    vocabulary = model.vocabulary
    names, labels = tf.constant(list(vocabulary.tokens)), tf.constant(list(model.labels))
    points, weights = quadrature(_STEPS)
    # The ends of the line give the outputs for the baseline and for the row.
    points = tf.constant([0.0, *points, 1.0], tf.float32)
    weights = tf.constant([0.0, *weights, 0.0], tf.float32)
    num_points = _STEPS + 2

    def logits_of(*rows):
        return tf.cast(model(model_inputs(*rows), training=False), tf.float32)

    def explain(rows, starts, ends):
        best = tf.argmax(run_rows(logits_of, rows, len(model.labels)), axis=1, output_type=tf.int32)[:, tf.newaxis]
        baseline = baseline_of(rows[0], vocabulary, "pad")

        def at_points(numbers):  # a row at one of its points
            row, point = numbers // num_points, tf.gather(points, numbers % num_points)
            chosen = [tf.gather(values, row) for values in (*rows, baseline, best)]
            inputs = {name: value for name, value in model_inputs(*chosen[:3]).items() if name in model.feature_names}
            return gradient_scores(model, inputs, *chosen[3:], point)

        length, size = tf.shape(rows[0])[1], tf.shape(rows[0])[0]
        specs = [tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None], tf.float32)]
        numbers = tf.range(size * num_points)
        products, outputs = compute_in_groups(at_points, [numbers], length * _MEMORY_OF_GRADIENT, specs)
        products = tf.reshape(products, tf.stack([size, num_points, length]))
        outputs = tf.reshape(outputs, [-1, num_points])
        is_piece = tf.logical_not(is_kept(rows[0], vocabulary))
        return {
            "tokens": tf.where(rows[1] > 0, tf.gather(names, rows[0]), ""),
            "scores": tf.einsum("bps,p->bs", products, weights),
            "starts": tf.where(is_piece, starts, -1),
            "ends": tf.where(is_piece, ends, -1),
            "texts": tf.where(is_piece, rows[2], -1),
            "label": tf.gather(labels, best[:, 0]),
            "output": outputs[:, -1],
            "baseline_output": outputs[:, 0],
        }

    return _of_texts(tokenizer, packer(vocabulary, options.max_seq_length), explain, options.text_pairs)


def _of_texts(tokenizer, pack, explain, text_pairs: bool):
    """Returns the signature of `text`, or of `text` and `text_b`; see `text_signature`."""

    def rows_of(values, is_pair=None):
        single = pack(values[:1])
        return single if is_pair is None else choose_rows(is_pair, pack(values), single)

    def compute(texts, is_pair_of=lambda ids: None):
        ids, starts, ends = zip(*map(tokenizer.tokenize_with_offsets, texts), strict=True)
        is_pair = is_pair_of(ids)
        # Offsets take the same way as ids, so they stand in the same columns.
        packed = [rows_of([tf.cast(value, tf.int32) for value in values], is_pair) for values in (ids, starts, ends)]
        rows = trim(*packed[0])
        length = tf.shape(rows[0])[1]
        return explain(rows, packed[1][0][:, :length], packed[2][0][:, :length])

    @signature(text=([None], tf.string))
    def of_text(text):
        return compute([text])

    @signature(text=([None], tf.string), text_b=([None], tf.string))
    def of_text_pair(text, text_b):
        return compute([text, text_b], lambda ids: ids[1].row_lengths() > 0)

    return of_text_pair if text_pairs else of_text


def _check(model, options: SignatureOptions) -> None:
    if not isinstance(model, SequenceClassifier):
        raise InputError(
            f"The signature explain is for classifiers of texts and of pairs. Received: {type(model).__name__}. Use "
            "model.explain in Python, or leave explain out."
        )
    if model.doc_stride and not options.text_pairs:
        raise InputError(
            "The signature explain is for texts in one row. The model has a doc_stride: leave explain out."
        )
