"""`TokenClassifier` as signatures of a SavedModel, and as ONNX operations."""

import tensorflow as tf

from keras_bert.config.signature_options import SignatureOptions
from keras_bert.serving.graph import RAW_OUTPUTS
from keras_bert.serving.graph.onnx_heads import BATCH, LENGTH, OUTPUT, token_features
from keras_bert.serving.graph.onnx_layers import dense
from keras_bert.serving.graph.row_groups import run_ragged_rows, run_rows
from keras_bert.serving.graph.signature_inputs import IDS, check_room, cut, model_inputs, signature
from keras_bert.serving.graph.words import GraphWords, spell
from keras_bert.tasks.tagging.decoding import allowed_transitions
from keras_bert.tasks.tagging.graph_tagging import EntityReader, decode_tags, sentence_rows
from keras_bert.tasks.tagging.tag_schemes import TagLabels

_WORDS = tf.TensorSpec([None], tf.string)
_SPLITS = tf.TensorSpec([None], tf.int64)


def tagging_signatures(model, tokenizer, options: SignatureOptions) -> dict:
    """Returns the signatures of a `TokenClassifier`. Texts of any length are processed, in rows cut between words,
    which overlap if the model has a `doc_stride`.

    Input: `text`, strings `[B]`.

    Outputs, where E is the largest number of entities in a text of the batch, and unused entries are "", -1 and 0:
    `entities`, strings `[B, E]`, the text of each; their `types`, strings `[B, E]`; `starts` and `ends`, int32 `[B,
    E]`, their bytes in the text; `probabilities`, float32 `[B, E]`. If the model's tags are not of entities: `words`
    and their `tags`, strings `[B, W]`, `starts`, `ends` and `probabilities`.

    `words` takes `words`, strings `[B, W]`, and `num_words`, int32 `[B]`, the number of words that count. It returns
    `tags`, strings `[B, W]`, `probabilities`, float32 `[B, W]`, and for tags of entities `entities`, `types`, `starts`,
    `ends` (words), and `entity_probabilities`, `[B, E]`.

    `tokens` takes `input_ids`, int32 `[B, S]`, and `lengths`, int32 `[B]`. It returns `tag_probabilities`, float32
    `[B, S, L]`, 0 for padding, and `labels`, strings `[B, L]`, the same in every row. `raw_outputs` takes these inputs
    too, and returns `outputs`, float32 `[B, S, L]`: logits, which are the least for labels that no word may get.
    """
    check_room(options, 1, model.vocabulary)
    is_answer = TagLabels.of(model.labels).is_answer

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def logits_of(input_ids, input_mask, segment_ids):
        logits = tf.cast(model(model_inputs(input_ids, input_mask, segment_ids), training=False), tf.float32)
        return logits if all(is_answer) else tf.where(is_answer, logits, logits.dtype.min)

    tag = _tagger(model, tokenizer, logits_of, options.max_seq_length)
    return {
        "serving_default": _of_texts(tag),
        "words": _of_words(tag),
        **_of_tokens(logits_of, model.labels, options.max_seq_length),
    }


def _tagger(model, tokenizer, logits_of, max_seq_length: int):
    """Returns a function of words, strings `[W]`, and the splits of sentences, int64 `[B + 1]`.

    The function returns the tags of the words, strings `[W]`, corrected if they are of entities; their probabilities,
    float64 `[W]`; and a dictionary with the parts of `Entities`, which is empty if the tags are not of entities.
    """
    labels = TagLabels.of(model.labels)
    allowed = allowed_transitions(labels, model.decoding)
    read_entities = None if labels.scheme is None else EntityReader(labels.names, labels.answer_scheme)

    @tf.function(input_signature=[_WORDS, _SPLITS], autograph=False)
    def tag(words, splits):
        rows, first_tokens = sentence_rows(
            words, splits, tokenizer.tokenize_words, model.vocabulary, max_seq_length, model.doc_stride
        )
        logits = run_ragged_rows(logits_of, rows, None, model.vocabulary.pad_id, len(model.labels))
        # Computed as in `predict`, so that nearly equal numbers have the same order.
        of_words = tf.cast(tf.gather(logits, first_tokens), tf.float64)
        if allowed is None:
            label_ids = tf.argmax(of_words, axis=1, output_type=tf.int32)
        else:
            label_ids = decode_tags(of_words, splits, allowed)
        probabilities = tf.nn.softmax(of_words)
        best = tf.gather(probabilities, label_ids, batch_dims=1)
        tags, entities = tf.gather(model.labels, label_ids), {}
        if read_entities is not None:
            sentences = tf.repeat(tf.range(tf.size(splits) - 1), splits[1:] - splits[:-1])
            tags, found = read_entities(label_ids, probabilities, sentences)
            entities = found._asdict()
        return tags, best, entities

    return tag


def _of_texts(tag):
    graph_words = GraphWords()

    @signature(text=([None], tf.string))
    def tag_text(text):
        found = graph_words(text)
        words = spell(found.points, found.first_points, found.end_points)
        splits = found.starts.row_splits
        tags, probabilities, entities = tag(words, splits)
        if not entities:
            values = {"words": words, "tags": tags, "probabilities": probabilities}
            offsets = {"starts": found.starts.values, "ends": found.ends.values}
            return _in_rows({**values, **offsets}, splits)
        firsts, lasts = entities["firsts"], entities["ends"] - 1
        values = {
            "entities": spell(found.points, tf.gather(found.first_points, firsts), tf.gather(found.end_points, lasts)),
            "types": entities["types"],
            "starts": tf.gather(found.starts.values, firsts),
            "ends": tf.gather(found.ends.values, lasts),
            "probabilities": entities["probabilities"],
        }
        return _in_rows(values, tf.searchsorted(firsts, splits, out_type=tf.int64))

    return tag_text


def _of_words(tag):
    @signature(words=([None, None], tf.string), num_words=([None], tf.int32))
    def tag_words(words, num_words):
        is_word = tf.sequence_mask(num_words, tf.shape(words)[1])
        lengths = tf.reduce_sum(tf.cast(is_word, tf.int64), axis=1)
        splits = tf.concat([[0], tf.cumsum(lengths)], 0)
        points = tf.strings.unicode_decode(tf.boolean_mask(words, is_word), "UTF-8", errors="ignore")
        flat = tf.strings.unicode_encode(points, "UTF-8")  # without invalid UTF-8
        tags, probabilities, entities = tag(flat, splits)
        outputs = _in_rows({"tags": tags, "probabilities": probabilities}, splits, tf.shape(words)[1])
        if not entities:
            return outputs
        entity_splits = tf.searchsorted(entities["firsts"], splits, out_type=tf.int64)
        sentence_firsts = tf.repeat(splits[:-1], entity_splits[1:] - entity_splits[:-1])
        inside = tf.boolean_mask(flat, entities["is_inside"])
        values = {
            "entities": tf.strings.unsorted_segment_join(
                inside, entities["numbers"], tf.size(entities["firsts"]), separator=" "
            ),
            "types": entities["types"],
            "starts": entities["firsts"] - sentence_firsts,
            "ends": entities["ends"] - sentence_firsts,
            "entity_probabilities": entities["probabilities"],
        }
        return {**outputs, **_in_rows(values, entity_splits)}

    return tag_words


def _of_tokens(logits_of, labels, max_seq_length: int) -> dict:
    """Returns the signatures `tokens` and `raw_outputs`."""

    @tf.function(input_signature=[IDS, tf.TensorSpec([None], tf.int32)], autograph=False)
    def padded_logits(input_ids, lengths):
        """Returns logits, float32 `[B, S, L]`, 0 beyond the rows; and whether a token is in its row, `[B, S, 1]`."""
        rows = cut(input_ids, tf.zeros_like(input_ids), lengths, max_seq_length)
        logits = run_rows(logits_of, rows, None, len(labels))
        missing = tf.maximum(tf.shape(input_ids)[1] - tf.shape(logits)[1], 0)
        padding = [[0, 0], [0, missing]]
        return tf.pad(logits, [*padding, [0, 0]]), tf.pad(tf.cast(rows[1], tf.bool), padding)[:, :, tf.newaxis]

    @signature(input_ids=([None, None], tf.int32), lengths=([None], tf.int32))
    def tag_tokens(input_ids, lengths):
        logits, is_real = padded_logits(input_ids, lengths)
        return {
            "tag_probabilities": tf.where(is_real, tf.nn.softmax(logits), 0.0),
            "labels": tf.tile([labels], [tf.shape(input_ids)[0], 1]),
        }

    @signature(input_ids=([None, None], tf.int32), lengths=([None], tf.int32))
    def raw_outputs(input_ids, lengths):
        return {"outputs": padded_logits(input_ids, lengths)[0]}

    return {"tokens": tag_tokens, RAW_OUTPUTS: raw_outputs}


def _in_rows(values: dict, splits, width=None) -> dict:
    """Arranges flat values in rows, padded with "", with -1 for integers, or with 0 for floats."""
    result = {}
    for name, value in values.items():
        if value.dtype.is_floating:
            value, nothing = tf.cast(value, tf.float32), 0.0
        else:
            value, nothing = (value, "") if value.dtype == tf.string else (tf.cast(value, tf.int32), -1)
        rows = tf.RaggedTensor.from_row_splits(value, splits, validate=False)
        shape = None if width is None else tf.stack([-1, width])
        result[name] = rows.to_tensor(nothing, shape=shape)
    return result


def token_classifier(graph, model):
    tokens = token_features(graph, model)
    return {OUTPUT: (dense(graph, model.token_classifier, tokens, exact=True), [BATCH, LENGTH, len(model.labels)])}
