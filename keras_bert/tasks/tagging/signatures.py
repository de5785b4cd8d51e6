"""The signatures of an exported `TokenClassifier`."""

from typing import Any, NamedTuple

import tensorflow as tf

from keras_bert.serving.graph import RAW_OUTPUTS
from keras_bert.serving.graph.row_groups import padded_rows, run_ragged_rows, run_rows
from keras_bert.serving.graph.signature_inputs import IDS, check_room, cut, model_inputs, signature
from keras_bert.serving.graph.signature_options import SignatureOptions
from keras_bert.serving.graph.words import GraphWords, spell
from keras_bert.tasks.explanation.signatures import ExplainedRows, explain_rows, first_best
from keras_bert.tasks.tagging.graph_entities import EntityReader
from keras_bert.tasks.tagging.graph_rows import sentence_rows
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

    With `options.explain` also `explain`. It takes `text`, and `word`, int32 `[B]`: the number of the word of each text
    whose tag is explained, or -1 for the word that `model.explain(texts)` chooses. It returns what `explain_rows` does,
    and `words`, int32 `[B, S]`, the number of each token's word, -1 for [CLS], [SEP] and padding. A text without such a
    word has the label "" and scores of 0.
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
        **({"explain": _explain_signature(model, tag)} if options.explain else {}),
    }


class _Tagged(NamedTuple):
    """The tags of W words.

    Attributes:
        tags: strings `[W]`; of entities, they are corrected.
        probabilities: float64 `[W]`.
        entities: the parts of `Entities`; empty if the tags are not of entities.
        label_ids: int64 `[W]`, the most probable labels.
        rows, first_tokens, piece_splits: the results of `sentence_rows`.
    """

    tags: tf.Tensor
    probabilities: tf.Tensor
    entities: dict[str, Any]
    label_ids: tf.Tensor
    rows: tf.RaggedTensor
    first_tokens: tf.Tensor
    piece_splits: tf.Tensor


def _tagger(model, tokenizer, logits_of, max_seq_length: int):
    """Returns a function from words, strings `[W]`, and the splits of sentences, int64 `[B + 1]`, to `_Tagged`."""
    labels = TagLabels.of(model.labels)
    read_entities = None if labels.scheme is None else EntityReader(labels.names, labels.answer_scheme)

    @tf.function(input_signature=[_WORDS, _SPLITS], autograph=False)
    def tag(words, splits):
        rows, first_tokens, piece_splits = sentence_rows(
            words, splits, tokenizer.tokenize_words, model.vocabulary, max_seq_length, model.doc_stride
        )
        logits = run_ragged_rows(logits_of, rows, None, model.vocabulary.pad_id, len(model.labels))
        # Computed as in `predict`, so that nearly equal numbers have the same order.
        probabilities = tf.nn.softmax(tf.cast(tf.gather(logits, first_tokens), tf.float64))
        label_ids = tf.argmax(probabilities, axis=1)
        best = tf.reduce_max(probabilities, axis=1)
        tags, entities = tf.gather(model.labels, label_ids), {}
        if read_entities is not None:
            sentences = tf.repeat(tf.range(tf.size(splits) - 1), splits[1:] - splits[:-1])
            tags, found = read_entities(label_ids, probabilities, sentences)
            entities = found._asdict()
        return _Tagged(tags, best, entities, label_ids, rows, first_tokens, piece_splits)

    return tag


def _of_texts(tag):
    graph_words = GraphWords()

    @signature(text=([None], tf.string))
    def tag_text(text):
        found = graph_words(text)
        words = spell(found.points, found.first_points, found.end_points)
        splits = found.starts.row_splits
        tags, probabilities, entities, *_ = tag(words, splits)
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
        return _in_rows(values, _entity_splits(firsts, splits))

    return tag_text


def _of_words(tag):
    @signature(words=([None, None], tf.string), num_words=([None], tf.int32))
    def tag_words(words, num_words):
        is_word = tf.sequence_mask(num_words, tf.shape(words)[1])
        lengths = tf.reduce_sum(tf.cast(is_word, tf.int64), axis=1)
        splits = tf.concat([[0], tf.cumsum(lengths)], 0)
        flat = _valid(tf.boolean_mask(words, is_word))
        tags, probabilities, entities, *_ = tag(flat, splits)
        outputs = _in_rows({"tags": tags, "probabilities": probabilities}, splits, tf.shape(words)[1])
        if not entities:
            return outputs
        entity_splits = _entity_splits(entities["firsts"], splits)
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


def _explain_signature(model, tag):
    graph_words, vocabulary, num_labels = GraphWords(), model.vocabulary, len(model.labels)

    @signature(text=([None], tf.string), word=([None], tf.int32))
    def explain(text, word):
        found = graph_words(text)
        words = spell(found.points, found.first_points, found.end_points)
        splits = found.starts.row_splits
        tagged = tag(words, splits)
        number = tf.where(word < 0, _surest(tagged, splits), splits[:-1] + tf.cast(word, tf.int64))
        is_word = (number >= splits[:-1]) & (number < splits[1:])
        # Texts without such a word have one more word, the [CLS] of one more row.
        number = tf.where(is_word, number, tf.size(words, tf.int64))
        rows = tf.concat([tagged.rows, [[vocabulary.cls_id, vocabulary.sep_id]]], 0)
        token = tf.gather(tf.concat([tagged.first_tokens, rows.row_starts()[-1:]], 0), number)
        row = tf.searchsorted(rows.row_splits, token, side="right") - 1
        column = token - tf.gather(rows.row_starts(), row)
        label_ids = tf.gather(tf.concat([tagged.label_ids, [0]], 0), number)
        outputs = tf.where(is_word, column * num_labels + label_ids, -1)
        rows = padded_rows(tf.gather(rows, row), vocabulary.pad_id)
        # The word of each column.
        columns = tf.range(tf.shape(rows[0], tf.int64)[1])
        pieces = (tf.gather(tagged.piece_splits, number) - column)[:, tf.newaxis] + columns
        numbers = tf.searchsorted(tagged.piece_splits, tf.reshape(pieces, [-1]), side="right", out_type=tf.int64) - 1
        numbers = tf.reshape(tf.clip_by_value(numbers, 0, tf.size(words, tf.int64)), tf.shape(pieces))
        starts, ends = (
            tf.gather(tf.concat([values.values, [-1]], 0), numbers) for values in (found.starts, found.ends)
        )
        names = tf.strings.join(
            [tf.gather(model.labels, label_ids), tf.gather(tf.concat([words, [""]], 0), number)], ": "
        )
        labels = tf.where(is_word, names, "")
        explained = ExplainedRows(rows, starts, ends, tf.cast(outputs, tf.int32)[:, tf.newaxis], labels)
        result = explain_rows(model, explained)
        in_text = tf.cast(numbers - splits[:-1, tf.newaxis], tf.int32)
        return {**result, "words": tf.where(result["starts"] < 0, -1, in_text)}

    return explain


def _surest(tagged: _Tagged, splits):
    """Returns the first word of the most probable entity of each sentence, or the word with the most probable tag if
    there is none, int64 `[B]`."""
    num_sentences = tf.size(splits) - 1
    sentences = tf.repeat(tf.range(num_sentences), splits[1:] - splits[:-1])
    word = first_best(tagged.probabilities, sentences, num_sentences)
    if not tagged.entities:
        return word
    firsts = tagged.entities["firsts"]
    entity = first_best(tagged.entities["probabilities"], tf.gather(sentences, firsts), num_sentences)
    has_entity = entity < tf.size(firsts, tf.int64)
    return tf.where(has_entity, tf.gather(tf.concat([firsts, [0]], 0), tf.where(has_entity, entity, 0)), word)


def _entity_splits(firsts, splits):
    """Returns the splits of entities by sentence, int64 `[B + 1]`, from the first word of each entity."""
    return tf.searchsorted(firsts, splits, out_type=tf.int64)


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


def _valid(texts):
    """Removes invalid UTF-8."""
    return tf.strings.unicode_encode(tf.strings.unicode_decode(texts, "UTF-8", errors="ignore"), "UTF-8")
