"""Converts the most probable label of every word to tags and entities, as a TensorFlow graph.

The rule is that of `tasks/tagging/tag_schemes.py`, for any scheme: whether a word begins an entity depends on its own
label and the label of the word before it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.tasks.tagging.tag_schemes import OUTSIDE, Entity, TagScheme, read_entities, write_tags

_NO_TYPE = -1


class Entities(NamedTuple):
    """E entities of sentences with W words.

    Attributes:
        firsts, ends: int64 (E,), the first word of each entity and the word after its last, numbered through all
            sentences.
        types: strings (E,).
        probabilities: float64 (E,), the probability of the type, averaged over the words.
        numbers: int32 (words in entities,), the entity of each word that is in one.
        is_inside: bool (W,), whether a word is in an entity.
    """

    firsts: tf.Tensor
    ends: tf.Tensor
    types: tf.Tensor
    probabilities: tf.Tensor
    numbers: tf.Tensor
    is_inside: tf.Tensor


class EntityReader:
    """Reads entities from the labels of a model.

    Args:
        labels: the L labels of a model.
        scheme: the scheme of the labels.
    """

    def __init__(self, labels: Sequence[str], scheme: TagScheme):
        self._types = sorted({entity.type for label in labels for entity in read_entities([label])})
        self._type = np.full(len(labels), _NO_TYPE, np.int32)
        # Whether a label continues an entity of its type, and whether such an entity can continue after it.
        self._goes_on, self._stays_open = np.zeros((2, len(labels)), bool)
        for number, label in enumerate(labels):
            for entity in read_entities([label]):
                self._type[number] = self._types.index(entity.type)
                self._goes_on[number] = len(read_entities([f"I-{entity.type}", label])) == 1
                self._stays_open[number] = len(read_entities([label, f"I-{entity.type}"])) == 1
        self._tags = [tag for name in self._types for tag in _tags_by_place(name, scheme)]
        self._is_of_type = np.array([[label[2:] == name for name in self._types] for label in labels], np.float64)

    def __call__(self, label_ids: tf.Tensor, probabilities: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, Entities]:
        """Returns the corrected tags of words, strings (W,), and their entities.

        Args:
            label_ids: int (W,), the most probable label of each word.
            probabilities: float64 (W, L).
            rows: int (W,), the sentence of each word, ascending.
        """
        types = tf.gather(self._type, label_ids)
        is_inside = types >= 0
        joins = tf.gather(self._goes_on, label_ids)[1:] & tf.gather(self._stays_open, label_ids)[:-1]
        joins &= tf.equal(types[1:], types[:-1]) & tf.equal(rows[1:], rows[:-1])
        neither = tf.zeros_like(is_inside[:1])
        begins = is_inside & ~tf.concat([neither, joins], 0)
        ends = is_inside & ~tf.concat([joins, neither], 0)
        place = 2 * tf.cast(~begins, tf.int32) + tf.cast(~ends, tf.int32)
        tags = tf.where(is_inside, tf.gather(self._tags, 4 * tf.maximum(types, 0) + place), OUTSIDE)

        numbers = tf.boolean_mask(tf.cumsum(tf.cast(begins, tf.int32)) - 1, is_inside)
        by_type = tf.boolean_mask(tf.matmul(probabilities, self._is_of_type), is_inside)
        of_words = tf.gather(by_type, tf.boolean_mask(types, is_inside), batch_dims=1)
        return tags, Entities(
            tf.where(begins)[:, 0],
            tf.where(ends)[:, 0] + 1,
            tf.gather(self._types, tf.boolean_mask(types, begins)),
            tf.math.segment_mean(of_words, numbers),
            numbers,
            is_inside,
        )


def _tags_by_place(entity_type: str, scheme: TagScheme) -> list[str]:
    """Returns the tags of a single word, and of the first, the last and the middle words of a longer entity."""
    single = write_tags([Entity(0, 1, entity_type)], 1, scheme)
    first, middle, last = write_tags([Entity(0, 3, entity_type)], 3, scheme)
    return [*single, first, last, middle]
