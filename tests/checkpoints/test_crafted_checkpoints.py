"""Malicious files, which ask for memory, time or other files, are rejected with one clear line."""

import json
import shutil
import struct

import h5py
import numpy as np
import pytest
from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto
from tiny_checkpoints import FEATURES, change_json, random_checkpoint

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints import tensorflow_checkpoint
from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.checkpoints.keras_weights_file import read_keras_weights
from keras_bert.checkpoints.safetensors_file import read_safetensors
from keras_bert.checkpoints.tensorflow_checkpoint import read_tensorflow_checkpoint, write_tensorflow_checkpoint
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import parse_json_object

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with one small checkpoint in each format, which tests copy."""
    folder = tmp_path_factory.mktemp("written")
    for format in ("huggingface", "google", "keras_bert"):
        write_checkpoint(random_checkpoint(form.CLASSIFIER, labels=("no", "yes")), folder / format, format)
    return folder


@pytest.fixture
def copied(written, tmp_path):
    def copy(format):
        return shutil.copytree(written / format, tmp_path / format)

    return copy


# HDF5


def external_storage(file, secret):
    file.create_dataset("kernel", (4,), "f4", external=[(str(secret), 0, 16)])


def virtual_dataset(file, secret):
    with h5py.File(secret, "w") as other:
        other["data"] = np.ones(4, "f4")
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource(str(secret), "data", (4,))
    file.create_virtual_dataset("kernel", layout)


def external_link(file, secret):
    file["kernel"] = h5py.ExternalLink(str(secret), "/data")


def soft_link(file, secret):
    file["kernel"] = h5py.SoftLink("/elsewhere")


@pytest.mark.parametrize("craft", [external_storage, virtual_dataset, external_link, soft_link])
def test_a_weights_file_that_leads_to_another_file_is_refused(craft, tmp_path):
    (tmp_path / "secret").write_bytes(b"sixteen bytes...")
    with h5py.File(tmp_path / "model.weights.h5", "w") as file:
        file["group/first"] = np.ones(3, "f4")
        craft(file, tmp_path / "secret")
    with pytest.raises(
        InputError, match=r"model.weights.h5: kernel( has the shape \[4\], but)? is (a link|not stored)[^\n]*$"
    ):
        read_keras_weights(tmp_path / "model.weights.h5")


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((10**6, 10**6), {"chunks": (1, 1000)}),
        ((10**6, 10**6), {"chunks": (1, 1000), "compression": "gzip"}),
        ((10**6, 10**6), {}),  # nothing was written, so nothing is stored
    ],
)
def test_a_weights_file_whose_shape_is_larger_than_its_bytes_is_refused(shape, options, tmp_path):
    with h5py.File(tmp_path / "model.weights.h5", "w") as file:
        file.create_dataset("kernel", shape, "f4", **options)
    with pytest.raises(InputError, match=r"has the shape \[1000000, 1000000\], but is not stored as Keras does it"):
        read_keras_weights(tmp_path / "model.weights.h5")


@pytest.mark.parametrize(
    "value", ["text", np.array([b"ab"]), np.zeros(2, [("a", "f4")]), np.zeros(2, "V3"), h5py.Empty("f4")]
)
def test_a_weights_file_that_holds_no_numbers_is_refused(value, copied):
    weights = copied("keras_bert") / "model.weights.h5"
    with h5py.File(weights, "a") as file:
        del file["classifier/vars/0"]
        file["classifier/vars/0"] = value
    with pytest.raises(InputError, match=r"classifier/vars/0[^\n]*(numbers were expected|is not stored)[^\n]*$"):
        read_checkpoint(weights.parent)


# TensorFlow


def write_varint(number):
    """A number in groups of seven bits, the lowest first; each but the last has the eighth bit."""
    groups = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


INDEX_HEADER = (b"", BundleHeaderProto(num_shards=1).SerializeToString(), 0)


def index_table(entries):
    """The index of a checkpoint in one block. Entries are (name, value, bytes shared with the name before)."""
    block = index_block(entries)
    return table(block, [(entries[-1][0], write_varint(0) + write_varint(len(block)), 0)])


def table(block, index_entries):
    content = block + b"\0" * 5
    index = index_block(index_entries)
    place = write_varint(len(content)) + write_varint(len(index))
    return content + index + b"\0" * 5 + (b"\0\0" + place).ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def index_block(entries):
    block = bytearray()
    for name, value, shared in entries:
        block += write_varint(shared) + write_varint(len(name) - shared) + write_varint(len(value))
        block += name[shared:] + value
    return bytes(block) + struct.pack("<2I", 0, 1)


def stored(size=16, shape=(), slices=0, more=b"", **changes):
    """The entry of a tensor in an index."""
    entry = BundleEntryProto(dtype=1, size=size, **changes)
    for axis in shape:
        entry.shape.dim.add(size=axis)
    for _ in range(slices):
        entry.slices.add().extent.add(start=0, length=1)
    return entry.SerializeToString() + more


def index_of(*entries):
    return index_table([INDEX_HEADER, *((name, value, 0) for name, value in entries)])


def index_of_x(*arguments, **changes):
    return index_of((b"x", stored(*arguments, **changes)))


def names_that_begin_alike():
    """A name of 4,000 bytes takes few bytes in the file, because it is stored as its difference from the one before."""
    names = [(b"a" * 4000 + b"%06d" % number, stored(), 4000 if number else 0) for number in range(2000)]
    return index_table([INDEX_HEADER, *names])


def one_empty_block_many_times():
    return table(index_block([]), [(b"%d" % number, write_varint(0) + write_varint(8), 0) for number in range(9)])


# TensorFlow's own reader ends the process for some of these, with SIGABRT.
NO_INDEX = "model.ckpt.index is damaged or not a TensorFlow checkpoint"
INDEXES = {
    "a negative axis": (lambda: index_of_x(shape=[-5]), NO_INDEX),
    "too many numbers": (lambda: index_of_x(shape=[2**40, 2**40]), NO_INDEX),
    "too many numbers and an axis of 0": (lambda: index_of_x(0, [2**40, 2**40, 0]), NO_INDEX),
    "more numbers than bytes": (lambda: index_of_x(shape=[10**12]), r"x cannot be read, .*16 bytes for the shape"),
    "a place behind the file": (lambda: index_of_x(shape=[4], offset=2**50), "x cannot be read, so a data file is cut"),
    "a place before the file": (lambda: index_of_x(shape=[4], offset=-8), NO_INDEX),
    "another data file": (lambda: index_of_x(shape=[4], shard_id=7), "x cannot be read"),
    "slices": (lambda: index_of_x(0, [0], slices=2), "stored in slices"),
    "the name of an axis": (lambda: index_of_x(0, [0], more=b"\x12\x05\x12\x03\x12\x01\xff"), NO_INDEX),
    "a long name": (lambda: index_of((b"x" * 5000, stored())), f"{NO_INDEX} .*too long"),
    "a name twice": (lambda: index_of((b"x", stored()), (b"x", stored())), f"{NO_INDEX} .*not sorted"),
    "2**31 - 1 data files": (lambda: index_table([(b"", b"\x08\xff\xff\xff\xff\x07", 0)]), "2147483647 data files"),
    "names that grow": (names_that_begin_alike, f"{NO_INDEX} .*it would grow"),
    "too many names": (
        lambda: index_of(*((b"%06d" % n, stored()) for n in range(100_001))),
        f"{NO_INDEX} .*would grow",
    ),
    "a long entry": (lambda: index_of((b"a", stored() * 40_000)), f"{NO_INDEX} .*it would grow"),
    "no header": (lambda: index_table([(b"a", stored(), 0)]), f"{NO_INDEX} .*it has no header"),
    "one empty block many times": (one_empty_block_many_times, "its blocks are not in order"),
    "two tensors in one place": (
        lambda: index_of((b"a", stored(shape=[4])), (b"b", stored(shape=[4]))),
        "its tensors have 32 bytes in all, but only 16 are stored",
    ),
}


@pytest.mark.parametrize("name", INDEXES)
def test_a_crafted_index_is_refused(name, tmp_path):
    make, message = INDEXES[name]
    prefix = str(tmp_path / "model.ckpt")
    write_tensorflow_checkpoint(prefix, {"x": StoredTensor.of(np.arange(4, dtype="float32"))})
    (tmp_path / "model.ckpt.index").write_bytes(make())
    with pytest.raises(InputError, match=message):
        read_tensorflow_checkpoint(prefix)["x"].read()


def test_tensorflow_reads_a_written_checkpoint_of_one_or_several_data_files(tmp_path, monkeypatch):
    import tensorflow as tf

    tensors = {f"layer/{number}": np.full((5, 4), number, "float32") for number in range(12)}
    tensors |= {"step": np.array(3, "int64"), "empty": np.zeros((0, 3), "float16"), "yes": np.array([True])}
    stored = {name: StoredTensor.of(array) for name, array in tensors.items()}
    for limit, num_files in ((1 << 26, 1), (200, 6), (1, len(tensors) - 1)):  # none is empty
        monkeypatch.setattr(tensorflow_checkpoint, "_LARGEST_DATA_FILE", limit)
        folder = tmp_path / f"[{num_files}]"
        folder.mkdir()
        write_tensorflow_checkpoint(str(folder / "model.ckpt"), stored)
        names = [f"model.ckpt.data-{number:05d}-of-{num_files:05d}" for number in range(num_files)]
        assert sorted(file.name for file in folder.iterdir()) == [*names, "model.ckpt.index"]
        for name, tensor in read_tensorflow_checkpoint(str(folder / "model.ckpt")).items():
            np.testing.assert_array_equal(tensor.read(), tensors[name], strict=True)
        # TensorFlow takes a path with brackets as a pattern.
        reader = tf.train.load_checkpoint(str(folder.rename(tmp_path / str(num_files)) / "model.ckpt"))
        for name, array in tensors.items():
            np.testing.assert_array_equal(reader.get_tensor(name), array, strict=True)


def test_the_strings_and_numbers_of_a_tensorflow_checkpoint_are_those_that_tensorflow_reads(tmp_path):
    import tensorflow as tf

    variables = [tf.Variable(np.arange(6).reshape(2, 3).astype(dtype)) for dtype in ("float32", "float16", "int64")]
    variables += [tf.Variable(True), tf.Variable(tf.constant([1.5], tf.bfloat16)), tf.Variable(tf.zeros((0, 3)))]
    variables += [tf.Variable(tf.random.normal((number % 5 + 1, 3))) for number in range(400)]  # in several blocks
    prefix = tf.train.Checkpoint(variables=variables).write(str(tmp_path / "checkpoint"))
    reader, stored = tf.train.load_checkpoint(prefix), read_tensorflow_checkpoint(prefix)
    assert set(stored) == set(reader.get_variable_to_shape_map())
    for name, tensor in stored.items():
        found, expected = tensor.read(), reader.get_tensor(name)
        if isinstance(expected, bytes):
            assert found == expected
        else:
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


# safetensors


def safetensors(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def entry(shape, start, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"a": entry([2], 0, 8), "b": entry([1], 4, 8)}, "overlap or leave a gap"),
        ({"a": entry([1], 0, 4)}, "but its header describes"),
        ({"a": entry([1], 0, 4), "b": entry([0], 8, 8)}, "overlap or leave a gap"),
        ({"a": entry([2**32, 2**32], 0, 0)}, "0 bytes for the shape"),
        ({"a": entry([10**9] * 100_000, 0, 8)}, "a tensor has 100000 axes"),
        ({"a": entry([-1, -2], 0, 8)}, "whole numbers from 0"),
        ({"a": entry([True, 2], 0, 8)}, "whole numbers from 0"),
        ({"a": entry(["2"], 0, 8)}, "whole numbers from 0"),
        ({"a": entry([2.0], 0, 8)}, "whole numbers from 0"),
        ({"a": entry([2], -8, 0)}, "whole numbers from 0"),
        ({"a": entry([2], 0, 8, ["F32"])}, "its header is damaged"),
        ({"a": [1]}, "its header is damaged"),
        (b"[1]", "the header must hold one JSON object"),
        (DEEP.encode(), "the header is nested more than 100 deep"),
    ],
)
def test_a_safetensors_header_that_does_not_describe_its_bytes_is_refused(header, message, tmp_path):
    file = safetensors(tmp_path / "model.safetensors", header, b"\0" * 8)
    with pytest.raises(InputError, match=f"model.safetensors[^\n]*{message}[^\n]*$"):
        read_safetensors(file)


def test_labels_are_not_counted_by_a_shape_without_bytes(copied):
    folder = copied("huggingface")
    tensors = read_safetensors(folder / "model.safetensors")
    header, data = {"classifier.bias": entry([10**12, 0], 0, 0)}, b""
    for name, tensor in tensors.items():
        if name != "classifier.bias":
            end = len(data) + tensor.num_bytes
            header[name] = entry(list(tensor.shape), len(data), end)
            data += tensor.read().tobytes()
    safetensors(folder / "model.safetensors", header, data)
    with pytest.raises(InputError, match=r"classifier/bias must have one axis. Received the shape \[10+, 0\]"):
        read_checkpoint(folder)


def test_weights_that_are_whole_numbers_are_refused(copied):
    folder = copied("huggingface")
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content.replace(b'"dtype":"F32"', b'"dtype":"I32"', 1))
    with pytest.raises(InputError, match="dtype int32, but weights must have one of float16, bfloat16"):
        read_checkpoint(folder)


# JSON


@pytest.mark.parametrize(
    ("format", "file"),
    [
        ("huggingface", "config.json"),
        ("huggingface", "tokenizer.json"),
        ("huggingface", "tokenizer_config.json"),
        ("huggingface", "modules.json"),
        ("huggingface", "model.safetensors.index.json"),
        ("google", "bert_config.json"),
        ("keras_bert", "bert_config.json"),
    ],
)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (DEEP, "is nested more than 100 deep"),
        ('{"a": ' * 5000 + "1" + "}" * 5000, "is nested more than 100 deep"),
        ('{"id2label": {"0": "b\\ud800"}}', "has a string with half of a surrogate pair, .ud800, "),
    ],
    ids=["lists", "objects", "half of a pair"],
)
def test_json_that_is_nested_too_deep_or_has_half_of_a_surrogate_pair_is_refused(
    format, file, content, message, copied
):
    folder = copied(format)
    if file.startswith("model."):
        (folder / "model.safetensors").unlink()
    (folder / file).write_text(content)
    with pytest.raises(InputError, match=f"{file} {message}[^\n]*$"):
        read_checkpoint(folder)


def test_a_whole_surrogate_pair_in_json_is_a_letter():
    assert parse_json_object('{"a": "\\ud83d\\ude00"}', "a whole pair") == {"a": "\U0001f600"}


def test_json_that_is_larger_than_any_config_is_refused(copied):
    folder = copied("huggingface")
    with open(folder / "config.json", "wb") as file:
        file.truncate(1 << 40)  # a hole: nothing is written
    with pytest.raises(InputError, match="config.json has more than 50,331,648 bytes"):
        read_checkpoint(folder)


HUGGING_FACE_VALUES = [
    ("config.json", {"architectures": "Bert"}, "architectures must be a list. Received: 'Bert'"),
    ("config.json", {"architectures": [["Bert"]]}, "each of architectures must be a string"),
    ("config.json", {"hidden_act": ["gelu"]}, "hidden_act must be a string"),
    ("config.json", {"id2label": ["a", "b"]}, "id2label must be an object"),
    ("config.json", {"problem_type": ["regression"]}, "problem_type is .'regression'."),
    ("config.json", {"vocab_size": 2**31}, "vocab_size must be a whole number"),
    ("config.json", {"model_type": {"a": []}}, "model_type is {'a': \\[\\]}"),
    ("tokenizer.json", {"normalizer": "Bert"}, "normalizer must be an object"),
    ("tokenizer.json", {"normalizer": {"type": "BertNormalizer", "lowercase": "yes"}}, "lowercase must be true"),
    ("tokenizer.json", {"model": ["WordPiece"]}, "model must be an object"),
    ("tokenizer.json", {"added_tokens": [1]}, "each of added_tokens must be an object"),
    ("tokenizer.json", {"added_tokens": [{"content": [], "id": 1}]}, "content of added_tokens must be a string"),
    ("tokenizer.json", {"added_tokens": [{"content": "a", "id": True}]}, "id of added_tokens must be a whole"),
    ("tokenizer_config.json", {"do_lower_case": 3, "strip_accents": 4}, "do_lower_case must be true or false"),
    ("model.safetensors.index.json", {"weight_map": ["model.safetensors"]}, "weight_map must be"),
    ("model.safetensors.index.json", {"weight_map": {"a": ["model.safetensors"]}}, "weight_map must be"),
    ("model.safetensors.index.json", {"weight_map": {"a": 1}}, "weight_map must be"),
]
# Entries of a model folder cannot make its class do anything else.
MODEL_ENTRIES = [
    ({"model": ["BertEncoder"]}, "model of 'keras_bert' must be a string"),
    ({"model": "BertEncoder", "what": 1}, "no BertEncoder can be created from its 'keras_bert' entry"),
    ({"model": "SequenceClassifier", "labels": [["a"], ["b"]]}, "keras_bert|labels"),
    ({"model": "BertEncoder", "activity_regularizer": {"class_name": "L2"}}, "must not have activity_regularizer"),
    ({"model": "BertEncoder", "name": "layout"}, "the 'keras_bert' entry must not have name"),
]
GOOGLE_ENTRIES = [{"output_weights": ["a"]}, {"labels": 5}, {"labels": [1, 2]}, {"problem_type": []}]
CONFIGS = {"huggingface": "config.json", "google": "bert_config.json", "keras_bert": "bert_config.json"}
BILLION = "num_hidden_layers must be .* at most 10,000. Received: 1000000000"


@pytest.mark.parametrize(
    ("format", "file", "changes", "message"),
    [
        *(("huggingface", *case) for case in HUGGING_FACE_VALUES),
        *(
            ("keras_bert", CONFIGS["keras_bert"], {"keras_bert": {"format": 1, **entry}}, m)
            for entry, m in MODEL_ENTRIES
        ),
        *(
            ("google", CONFIGS["google"], {"keras_bert": {"output_weights": "classifier", **entry}}, "must be")
            for entry in GOOGLE_ENTRIES
        ),
        *((format, file, {"num_hidden_layers": 10**9}, BILLION) for format, file in CONFIGS.items()),
    ],
)
def test_a_value_of_the_wrong_type_or_size_is_named(format, file, changes, message, copied):
    folder = copied(format)
    if file.startswith("model."):
        (folder / "model.safetensors").unlink()
    change_json(folder / file, **changes)
    with pytest.raises(InputError, match=f"{file}: [^\n]*({message})[^\n]*$"):
        read_checkpoint(folder)


# Keras


def test_a_damaged_checkpoint_does_no_harm_to_the_models_after_it(copied):
    import keras
    from keras.src.backend.common import global_state

    from keras_bert.encoders.bert.encoder import BertEncoder

    damaged, good = copied("google"), copied("huggingface")
    data = damaged / "bert_model.ckpt.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    before = dict(vars(global_state.GLOBAL_STATE_TRACKER))
    names = dict(before.get("object_name_uids") or {})
    for _ in range(2):
        with pytest.raises(InputError, match="cannot be read"):
            BertEncoder.from_pretrained(damaged)
    with pytest.raises(ValueError, match="no_such_argument"):
        BertEncoder.from_pretrained(good, no_such_argument=1)
    after = vars(global_state.GLOBAL_STATE_TRACKER)
    assert not after.get("uninitialized_variables")
    assert after.get("stateless_scope") is None
    assert dict(after.get("object_name_uids") or {}) == names
    inputs = {name: FEATURES[name] for name in BertEncoder.feature_names}
    assert np.isfinite(keras.ops.convert_to_numpy(BertEncoder.from_pretrained(good)(inputs)["pooled_output"])).all()
