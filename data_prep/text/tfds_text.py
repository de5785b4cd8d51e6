"""Reads text from tensorflow_datasets by name: `tfds:NAME[/CONFIG][:VERSION][@SPLIT]`."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from keras_bert.program.errors import InputError

_PREFIX = "tfds:"
_NAME = re.compile(r"tfds:(?P<data_set>[\w./:*-]+)(?:@(?P<split>\S+))?")


class _DataSet(NamedTuple):
    builder: Any
    split: str
    num_examples: int
    num_bytes: int

    def examples(self):
        """Returns the examples as a `tf.data.Dataset`, in their stored order."""
        import tensorflow_datasets as tfds

        # One file at a time, without a cache, keeps memory constant.
        read_config = tfds.ReadConfig(try_autocache=False, interleave_cycle_length=1)
        return self.builder.as_dataset(split=self.split, shuffle_files=False, read_config=read_config)


def is_tfds_name(name: str) -> bool:
    """Returns whether a name is that of a data set of tensorflow_datasets, not of a file."""
    return name.startswith(_PREFIX)


def check_name(name: str) -> tuple[str, str]:
    """Returns the data set and the split of a name. Raises `InputError` if the name has another form.

    >>> check_name("tfds:wikipedia/20230601.en:1.0.0@train[:1%]")
    ('wikipedia/20230601.en:1.0.0', 'train[:1%]')
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise InputError(f"{name!r} is not of the form tfds:NAME[/CONFIG][:VERSION][@SPLIT], like tfds:ag_news_subset")
    return match["data_set"], match["split"] or "train"


def size_in_bytes(name: str, data_dir: str | None) -> int:
    """Returns the size of the split as recorded by tensorflow_datasets. Downloads the data set if necessary."""
    return _open(name, data_dir).num_bytes


def read_texts(name: str, text_field: str, data_dir: str | None) -> Iterator[tuple[str, int]]:
    """Yields the text of each example and its share of the data set's bytes, in stored order.

    `text_field` is the name of a text feature; nested ones have slashes, like "document/paragraphs". A list of texts is
    joined, one text per line. Raises `InputError` if there is no such data set, split or field, or it cannot be
    downloaded.
    """
    import tensorflow_datasets as tfds

    data_set = _open(name, data_dir)
    found = _text_fields(data_set.builder.info.features)
    if text_field not in found:
        raise InputError(
            f"{name} has no text field {text_field!r}. Its text fields are: {', '.join(sorted(found)) or 'none'}"
        )
    reported = 0
    texts = data_set.examples().map(lambda example: _text_in_graph(example, text_field))
    for number, example in enumerate(tfds.as_numpy(texts), start=1):
        try:
            text = example.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{name}: the {text_field!r} of example {number} is not UTF-8: {error.reason}") from None
        position = data_set.num_bytes * number // data_set.num_examples
        yield text, position - reported
        reported = position


def read_examples(name: str, data_dir: str | None = None) -> Iterator[dict[str, Any]]:
    """Yields each example in the form of JSON: texts as `str`, classes by their names, sequences as lists.

    A missing class (-1, in test splits) is None. Raises `InputError` if there is no such data set or split, or it
    cannot be downloaded.
    """
    import tensorflow_datasets as tfds

    data_set = _open(name, data_dir)
    for example in tfds.as_numpy(data_set.examples()):
        yield _plain(example, data_set.builder.info.features)


def _plain(value, feature):
    """Converts the value of a feature to `str`, numbers, lists and dictionaries."""
    import tensorflow_datasets as tfds

    if isinstance(feature, tfds.features.FeaturesDict):
        return {key: _plain(value[key], feature[key]) for key in feature}
    if isinstance(feature, tfds.features.Sequence):
        # tensorflow_datasets returns a sequence of dictionaries as a dictionary of sequences.
        if isinstance(feature.feature, tfds.features.FeaturesDict):
            inner = feature.feature
            return {key: _plain(value[key], tfds.features.Sequence(inner[key])) for key in inner}
        items = value.to_list() if hasattr(value, "to_list") else value
        return [_plain(item, feature.feature) for item in items]
    if isinstance(feature, tfds.features.ClassLabel):
        return feature.int2str(int(value)) if value >= 0 else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.tolist() if hasattr(value, "tolist") else value


def _open(name: str, data_dir: str | None) -> _DataSet:
    data_set_name, split = check_name(name)
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        raise InputError(f"{name} needs the package tensorflow-datasets: pip install tensorflow-datasets") from None
    try:
        builder = tfds.builder(data_set_name, data_dir=data_dir)
    except (tfds.core.registered.DatasetNotFoundError, ValueError, AssertionError) as error:
        raise InputError(f"{name}: tensorflow_datasets does not know it: {_first_line(error)}") from None
    try:
        builder.download_and_prepare()
    except Exception as error:  # each data source has its own exceptions
        raise InputError(f"{name} could not be downloaded and prepared: {_first_line(error)}") from error
    return _DataSet(builder, split, *_split_size(name, builder, split))


def _split_size(name: str, builder, split: str) -> tuple[int, int]:
    """Returns the number of examples and of bytes of a split or of a part of one."""
    try:
        num_examples = builder.info.splits[split].num_examples
    except (KeyError, ValueError, AssertionError):
        raise InputError(f"{name} has no split {split!r}. It has: {', '.join(sorted(builder.info.splits))}") from None
    if not num_examples:
        raise InputError(f"{name}: the split {split!r} has no examples.")
    whole = [builder.info.splits[key] for key in builder.info.splits]
    bytes_per_example = sum(part.num_bytes for part in whole) / max(1, sum(part.num_examples for part in whole))
    return num_examples, round(bytes_per_example * num_examples)


def _text_in_graph(example, text_field: str):
    """Returns the text of one example: a string tensor of shape ()."""
    import tensorflow as tf

    for key in text_field.split("/"):
        example = example[key]
    texts = example.flat_values if isinstance(example, tf.RaggedTensor) else tf.reshape(example, [-1])
    return tf.strings.reduce_join(texts, separator="\n")


def _text_fields(feature, path: tuple[str, ...] = ()) -> list[str]:
    """Returns the paths of all texts, and lists of texts, below a feature.

    {"title": Text, "body": [{"heading": Text, "lines": [Text]}]} -> ["title", "body/heading", "body/lines"]
    """
    import tensorflow_datasets as tfds

    while isinstance(feature, tfds.features.Sequence):
        feature = feature.feature
    if isinstance(feature, tfds.features.FeaturesDict):
        return [field for key in feature for field in _text_fields(feature[key], (*path, key))]
    return ["/".join(path)] if isinstance(feature, tfds.features.Text) else []


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
