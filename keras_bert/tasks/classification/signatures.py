"""`SequenceClassifier` and `SentenceClassifier` as signatures of a SavedModel, and as ONNX operations."""

import tensorflow as tf

from keras_bert.config.signature_options import SignatureOptions
from keras_bert.serving.graph import answer_operations
from keras_bert.serving.graph.onnx_heads import BATCH, OUTPUT, encoder_of_rows
from keras_bert.serving.graph.onnx_layers import dense
from keras_bert.serving.graph.row_groups import run_rows
from keras_bert.serving.graph.signature_inputs import (
    IDS,
    check_pairs,
    model_inputs,
    of_examples,
    packer,
    row_signatures,
    signature,
    trim,
)
from keras_bert.tasks.classification.answers import label_arrays
from keras_bert.tasks.classification.thresholds import as_thresholds
from keras_bert.tasks.classification.zero_shot import check_template, contradiction_of, entailment_of
from keras_bert.tasks.embedding.signatures import text_vectors


def classifier_signatures(model, tokenizer, options: SignatureOptions, activate=None, prompt: str = "") -> dict:
    """Returns the signatures of a `SequenceClassifier`.

    Args:
        activate: function of the outputs of the model; None for no change.
        prompt: is put before each `text`.

    Inputs: `text`, strings `[B]`, and for pairs `text_b`, strings `[B]`, where an empty one means a single text. Or
    `input_ids`, for pairs `segment_ids`, int32 `[B, S]`, and `lengths`, int32 `[B]`. If the model has a `doc_stride`,
    single texts may be of any length.

    Outputs: those of `label_arrays`; names are strings, numbers float32. L is the number of labels.

    For TensorFlow Serving's Classify and Regress: `classify` takes `inputs`, serialised `tf.train.Example`s, and
    returns `classes`, strings `[B, L]`, and `scores`, float32 `[B, L]`; `regress` returns `outputs`, float32 `[B]`.

    `raw_outputs` has the inputs of `tokens`, and returns `outputs`, float32 `[B, L]`: logits, or scores.

    With `options.zero_shot` also `zero_shot`.
    """
    thresholds = as_thresholds(model.thresholds, model.labels)

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def run(*rows):
        outputs = run_rows(lambda *part: model(model_inputs(*part), training=False), rows, len(model.labels))
        return activate(outputs) if activate else outputs

    def answer(outputs):
        return label_arrays(outputs, model.labels, model.problem_type, thresholds, answer_operations)

    made = row_signatures(model, tokenizer.tokenize, options, run, answer, prompt=prompt)
    if options.zero_shot is not None:
        made["zero_shot"] = _zero_shot_signature(model, tokenizer, run, options)
    return made | _of_serving_apis(made["serving_default"], model.problem_type, len(model.labels))


def _zero_shot_signature(model, tokenizer, run, options: SignatureOptions):
    """Returns the signature of `zero_shot`, with the sentence `options.zero_shot` about each label.

    Inputs: `text`, strings `[B]`, and `labels`, strings `[B, L]`. Labels that are empty or repeat the first one of a
    row do not count, since servers pad batches with them. Sentences that leave no room for a text are cut.

    Outputs: those of a model for one label, where labels that do not count are ""; and `independent_probabilities`,
    float32 `[B, L]`, each label's entailment against its contradiction, which are also the `probabilities` of rows with
    one label.
    """
    check_template(options.zero_shot, "zero_shot")
    check_pairs(model)
    entailment, parts = entailment_of(model), options.zero_shot.split("{}")
    pack = packer(model.vocabulary, options.max_seq_length)
    room = options.max_seq_length - model.vocabulary.special_tokens.num_special(2)

    @signature(text=([None], tf.string), labels=([None, None], tf.string))
    def of_text(text, labels):
        names, shape = tf.reshape(labels, [-1]), tf.shape(labels)
        hypotheses = tokenizer.tokenize(
            tf.strings.join([parts[0], *(one for part in parts[1:] for one in (names, part))])
        )
        tokens, owner = tokenizer.tokenize(text), tf.repeat(tf.range(shape[0]), shape[1])
        length = tf.minimum(tf.gather(tokens.row_lengths(), owner), tf.maximum(room - hypotheses.row_lengths(), 0))
        begin = tf.gather(tokens.row_starts(), owner)
        places = tf.ragged.range(begin, begin + length)
        rows = trim(*pack([places.with_values(tf.gather(tokens.values, places.values)), hypotheses]))
        logits = tf.reshape(run(*rows), [shape[0], shape[1], len(model.labels)])
        scores = logits[:, :, entailment]
        alone = tf.sigmoid(scores - logits[:, :, contradiction_of(entailment)])
        counts = (labels != "") & ((labels != labels[:, :1]) | (tf.range(shape[1]) == 0))
        together = tf.nn.softmax(tf.where(counts, scores, scores.dtype.min))
        is_one = tf.math.count_nonzero(counts, axis=1, keepdims=True) == 1
        probabilities = tf.where(counts, tf.where(is_one, alone, together), 0.0)
        return {
            "label": tf.gather(labels, tf.argmax(probabilities, axis=1), batch_dims=1),
            "probability": tf.reduce_max(probabilities, axis=1),
            "labels": tf.where(counts, labels, ""),
            "probabilities": probabilities,
            "independent_probabilities": tf.where(counts, alone, 0.0),
        }

    return of_text


def _of_serving_apis(of_text, problem_type: str, num_labels: int) -> dict:
    """Returns the signatures for TensorFlow Serving's Classify or Regress, which have fixed input and output names."""
    if problem_type != "regression":
        return {
            "classify": of_examples(
                of_text, "inputs", lambda outputs: {"classes": outputs["labels"], "scores": outputs["probabilities"]}
            )
        }
    if num_labels > 1:
        return {}  # Regress returns one number per example
    return {"regress": of_examples(of_text, "inputs", lambda outputs: {"outputs": outputs["score"]})}


def classifier(graph, model):
    encoder = encoder_of_rows(graph, model)
    logits = dense(graph, model.classifier, encoder.pooled_at()[0], exact=True)
    return {OUTPUT: (logits, [BATCH, len(model.labels)])}


def sentence_classifier(graph, model):
    vectors = text_vectors(graph, model)
    return {OUTPUT: (dense(graph, model.classifier, vectors, exact=True), [BATCH, len(model.labels)])}
