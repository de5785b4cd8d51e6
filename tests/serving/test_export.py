"""Exported models: their answers, their independence of this package, and their files."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from full_disk import file_size_limit
from places import PROJECT

from keras_bert.config import BertConfig
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError
from keras_bert.serving.export import export_for_serving
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

VOCABULARY = tiny.vocabulary("the quick brown fox ##es jump ##ed over lazy dog . ,")
# With large initial weights, answers differ from text to text.
CONFIG = tiny.config(VOCABULARY, hidden_size=32, num_hidden_layers=2, initializer_range=0.5)
LABELS = ["statement", "question", "order"]
TEXTS = [
    "The quick brown fox jumped over the lazy dog.",
    "the",
    "",
    "the quick brown foxes jumped over the lazy dogs, the quick brown fox, the quick brown dog, the fox.",
    b"the \xff\xfe quick \xc3 fox",
    "Ünknown wörds of 字 ﬁ",
]
MASKED_TEXTS = ["the quick brown [MASK] jumped over the [MASK] dog.", "no mask", "[MASK][MASK]foxes,[MASK]", ""]
# The operations of TensorFlow Text that an export may have: stock TensorFlow Serving links them since 2.12. It does not
# link every operation: RoundRobinTrim came in 2.20.
SERVED_TEXT_OPERATIONS = {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}


def classifier(config=CONFIG, vocabulary=VOCABULARY, **kwargs):
    keras.utils.set_random_seed(1)
    model = SequenceClassifier(config, labels=LABELS, name="sequence_classifier", **kwargs)
    model.vocabulary = vocabulary
    return model


def pretrainer(config=CONFIG, vocabulary=VOCABULARY):
    keras.utils.set_random_seed(2)
    model = BertPretrainer(config, name="bert_pretrainer")
    model.vocabulary = vocabulary
    return model


def encoder(config=CONFIG, vocabulary=VOCABULARY):
    keras.utils.set_random_seed(3)
    model = BertEncoder(config, name="bert_encoder")
    model.vocabulary = vocabulary
    return model


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Name -> (model, folder of its first version)."""
    folder = tmp_path_factory.mktemp("exports")
    single, pairs, masked = classifier(), classifier(), pretrainer()
    return {
        "single": (single, export_for_serving(single, folder / "single")),
        "pairs": (pairs, export_for_serving(pairs, folder / "pairs", text_pairs=True)),
        "masked": (masked, export_for_serving(masked, folder / "masked", top_k=3)),
    }


@pytest.fixture(scope="module")
def ask(exports):
    """Calls a signature of an export, and returns arrays."""
    loaded = {name: tf.saved_model.load(folder) for name, (_, folder) in exports.items()}

    def call(name, signature="serving_default", **inputs):
        types = {"text": tf.string, "text_b": tf.string}
        inputs = {key: tf.constant(value, types.get(key, tf.int32)) for key, value in inputs.items()}
        return {key: value.numpy() for key, value in loaded[name].signatures[signature](**inputs).items()}

    return call


def packed(segments, length, vocabulary=VOCABULARY):
    """One row of ids, mask and segments by Google's rules, written as loops. An empty second segment counts as none."""
    segments = [list(segment) for number, segment in enumerate(segments) if segment or number == 0]
    while sum(map(len, segments)) > length - 1 - len(segments):
        longest = segments[0] if len(segments) == 1 or len(segments[0]) > len(segments[1]) else segments[1]
        longest.pop()
    row, numbers = [vocabulary.cls_id], [0]
    for number, segment in enumerate(segments):
        row += [*segment, vocabulary.sep_id]
        numbers += [number] * (len(segment) + 1)
    padding = [0] * (length - len(row))
    return row + padding, [1] * len(row) + padding, numbers + padding


def batch(rows):
    ids, mask, segments = np.array(rows).transpose(1, 0, 2)
    return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


def features(texts, texts_b=None, config=CONFIG, vocabulary=VOCABULARY):
    """Builds the inputs by hand with the Python tokenizer."""
    tokenizer = WordPieceTokenizer(vocabulary, do_lower_case=config.do_lower_case)
    pairs = zip(texts, texts_b or [""] * len(texts), strict=True)
    rows = [[tokenizer.encode(first), tokenizer.encode(second)] for first, second in pairs]
    return batch([packed(row, config.max_position_embeddings, vocabulary) for row in rows])


def masked_ids(text):
    tokenizer, mask = WordPieceTokenizer(VOCABULARY), [VOCABULARY.mask_id]
    first, *others = [tokenizer.encode(piece) for piece in text.split("[MASK]")]
    return sum([mask + piece for piece in others], first)


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def predicted(model, inputs):
    return softmax(model.predict(inputs, verbose=0))


def test_a_classifier_answers_texts_as_predict_does(exports, ask):
    expected = predicted(exports["single"][0], features(TEXTS))
    answer = ask("single", text=TEXTS)
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    assert answer["label"].tolist() == [LABELS[index].encode() for index in expected.argmax(1)]
    np.testing.assert_allclose(answer["probability"], expected.max(1), atol=1e-5)
    assert answer["labels"].tolist() == [[label.encode() for label in LABELS]] * len(TEXTS)
    assert len(set(expected[:, 0].round(3))) > 3, "the answers must differ for this test to mean something"


def test_a_text_has_the_same_answer_alone_as_in_a_batch(ask):
    together = ask("single", text=TEXTS)["probabilities"]
    for text, row in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(ask("single", text=[text])["probabilities"][0], row, atol=1e-5)


def test_pairs_are_answered_and_an_empty_second_text_means_a_single_one(exports, ask):
    seconds = ["the lazy dog", "quick, " * 20, "the fox", "brown dogs jumped over " * 3, "", ""]
    model = exports["pairs"][0]
    answer = ask("pairs", text=TEXTS, text_b=seconds)["probabilities"]
    np.testing.assert_allclose(answer, predicted(model, features(TEXTS, seconds)), atol=1e-5)
    # The model of single texts has the same weights.
    np.testing.assert_allclose(answer[-2:], ask("single", text=TEXTS[-2:])["probabilities"], atol=1e-5)


def test_an_empty_batch_has_an_empty_answer(ask):
    assert ask("single", text=[])["probabilities"].shape == (0, 3)
    assert ask("single", text=[])["label"].shape == (0,)
    assert ask("pairs", text=[], text_b=[])["labels"].shape == (0, 3)
    assert ask("masked", text=[])["tokens"].shape[::2] == (0, 3)


def test_tokens_count_up_to_the_length_whatever_stands_behind(ask):
    expected = ask("single", text=["the quick fox", "the lazy dog jumped"])["probabilities"]
    # [CLS] the quick fox [SEP], padded as TensorFlow Serving does: with the first number of the row.
    rows = [[2, 5, 6, 8, 3, 2], [2, 5, 13, 14, 10, 11]]
    rows[1].append(3)
    rows[0].append(2)
    answer = ask("single", "tokens", input_ids=rows, lengths=[5, 7])
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    padded_further = [row + [2] * 30 for row in rows]
    answer = ask("single", "tokens", input_ids=padded_further, lengths=[5, 7])
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)


def test_tokens_of_pairs_take_segment_ids(ask):
    expected = ask("pairs", text=["the fox"], text_b=["the dog"])["probabilities"]
    answer = ask(
        "pairs",
        "tokens",
        input_ids=[[2, 5, 8, 3, 5, 14, 3, 2]],
        segment_ids=[[0, 0, 0, 0, 1, 1, 1, 99]],
        lengths=[7],
    )
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)


def test_tokens_beyond_the_model_are_cut(exports, ask):
    row = [2] + [5, 6, 7, 8] * 10
    inputs = batch([(row[:16], [1] * 16, [0] * 16)])
    answer = ask("single", "tokens", input_ids=[row], lengths=[41])["probabilities"]
    np.testing.assert_allclose(answer, predicted(exports["single"][0], inputs), atol=1e-5)


def test_masks_are_filled_with_the_likeliest_tokens(exports, ask):
    answer = ask("masked", text=MASKED_TEXTS)
    assert answer["positions"].tolist() == [[4, 9, -1], [-1, -1, -1], [1, 2, 6], [-1, -1, -1]]
    inputs = batch([packed([masked_ids(text)], 16) for text in MASKED_TEXTS])
    inputs["masked_lm_positions"] = np.maximum(answer["positions"], 0)
    expected = softmax(exports["masked"][0].predict(inputs, verbose=0)["masked_lm_logits"])
    for row, positions in enumerate(answer["positions"]):
        for place, position in enumerate(positions):
            if position < 0:
                assert answer["tokens"][row, place].tolist() == [b""] * 3
                assert answer["probabilities"][row, place].tolist() == [0.0] * 3
                continue
            best = np.argsort(-expected[row, place])[:3]
            assert answer["tokens"][row, place].tolist() == [VOCABULARY.tokens[index].encode() for index in best]
            np.testing.assert_allclose(answer["probabilities"][row, place], expected[row, place, best], atol=1e-5)


def test_texts_without_masks_have_no_places(ask):
    answer = ask("masked", text=["the fox", "a [mask] in small letters", "[ MASK ]"])
    assert answer["tokens"].shape == answer["probabilities"].shape == (3, 0, 3)
    assert answer["positions"].shape == (3, 0)


def test_a_mask_that_is_cut_off_has_no_place(ask):
    answer = ask("masked", text=["[MASK] " + "the " * 20 + "[MASK]"])
    assert answer["positions"].tolist() == [[1]]


def test_masks_in_tokens_are_filled_up_to_the_length(ask):
    expected = ask("masked", text=["the [MASK] fox"])
    answer = ask("masked", "tokens", input_ids=[[2, 5, 4, 8, 3, 4, 4]], lengths=[5])
    assert answer["positions"].tolist() == [[2]]
    assert answer["tokens"].tolist() == expected["tokens"].tolist()
    np.testing.assert_allclose(answer["probabilities"], expected["probabilities"], atol=1e-5)


def test_the_tokens_of_texts_get_the_answers_of_the_texts_and_keras_has_a_layer_for_exports(exports, ask):
    texts = ["the fox", "", "a wonderful film"]
    expected = ask("single", text=texts)["probabilities"]
    rows = ask("single", "tokenize", text=texts)
    found = ask("single", "tokens", input_ids=rows["input_ids"], lengths=rows["lengths"])["probabilities"]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    layer = keras.layers.TFSMLayer(exports["single"][1], call_endpoint="serving_default")
    np.testing.assert_allclose(layer(tf.constant(texts))["probabilities"], expected, atol=1e-5)


@pytest.mark.parametrize("name", ["single", "pairs", "masked"])
def test_signatures_are_what_servers_and_clients_can_use(exports, name):
    saved_model = read_saved_model(exports[name][1])
    signatures = saved_model.meta_graphs[0].signature_def
    names = {"serving_default", "tokens", "raw_outputs", "tokenize", "examples"}
    names |= {"classify"} if name != "masked" else set()
    assert set(signatures) - {"__saved_model_init_op"} == names
    texts = ["text", "text_b"] if name == "pairs" else ["text"]
    assert sorted(signatures["serving_default"].inputs) == texts
    ids = ["input_ids", "lengths", "segment_ids"] if name == "pairs" else ["input_ids", "lengths"]
    assert sorted(signatures["tokens"].inputs) == ids, "a mask would be padded with ones by a server"
    outputs = ["label", "labels", "probabilities", "probability"]
    for signature in (signatures["serving_default"], signatures["tokens"]):
        assert sorted(signature.outputs) == (["positions", "probabilities", "tokens"] if name == "masked" else outputs)
        for tensor in [*signature.inputs.values(), *signature.outputs.values()]:
            assert tf.as_dtype(tensor.dtype) in (tf.string, tf.int32, tf.float32)
            assert not tensor.tensor_shape.unknown_rank
            assert tensor.tensor_shape.dim[0].size == -1
    assert not compiled_functions(saved_model), "stock servers have XLA switched off"


def read_saved_model(folder):
    from tensorflow.core.protobuf import saved_model_pb2

    return saved_model_pb2.SavedModel.FromString(pathlib.Path(folder, "saved_model.pb").read_bytes())


def compiled_functions(saved_model):
    library = saved_model.meta_graphs[0].graph_def.library
    return [
        function.signature.name
        for function in library.function
        for owner in [function, *function.node_def]
        if "_XlaMustCompile" in owner.attr and owner.attr["_XlaMustCompile"].b
    ]


@pytest.mark.parametrize("name", ["single", "pairs", "masked"])
def test_the_weights_are_on_disk_once_beside_the_vocabulary_and_the_config(exports, name):
    model, folder = exports[name]
    assert sorted(files_below(folder)) == [
        "assets/bert_config.json",
        "assets/export.json",
        "assets/vocab.txt",
        "fingerprint.pb",
        "saved_model.pb",
        "variables/variables.data-00000-of-00001",
        "variables/variables.index",
    ]
    weights = model.count_params() * 4
    assert weights <= pathlib.Path(folder, "variables/variables.data-00000-of-00001").stat().st_size < 1.2 * weights
    assert Vocabulary.from_file(f"{folder}/assets/vocab.txt") == VOCABULARY
    assert BertConfig.from_json_file(f"{folder}/assets/bert_config.json") == CONFIG


def files_below(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in pathlib.Path(folder).rglob("*") if path.is_file()
    }


@pytest.mark.slow
def test_two_exports_are_the_same_bytes(exports, tmp_path):
    for name, options in [("single", {}), ("pairs", {"text_pairs": True}), ("masked", {"top_k": 3})]:
        model, folder = exports[name]
        again = export_for_serving(model, tmp_path / name, **options)
        assert again == str(tmp_path / name / "1")
        first, second = files_below(folder), files_below(again)
        assert first.pop("fingerprint.pb") != second.pop("fingerprint.pb")
        assert first == second
        # It is the fingerprint of the graph on disk, so it is the same except for the random part.
        prints = [tf.saved_model.experimental.read_fingerprint(path) for path in (folder, again)]
        assert prints[0].saved_model_checksum == prints[1].saved_model_checksum
        assert prints[0].graph_def_program_hash == prints[1].graph_def_program_hash


@pytest.mark.slow
def test_a_trained_model_exports_without_dropout_and_without_its_optimizer(tmp_path):
    model = classifier()
    model.compile(optimizer="sgd", jit_compile=False)
    inputs = features(TEXTS)
    model.fit(inputs, np.array([0, 1, 2, 0, 1, 2]), verbose=0)
    expected = predicted(model, inputs)
    model.compile(optimizer="sgd", jit_compile=True)
    answer = tf.saved_model.load(model.export_for_serving(tmp_path)).signatures["serving_default"]
    for _ in range(2):
        probabilities = answer(text=tf.constant(TEXTS))["probabilities"]
        np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    assert pathlib.Path(tmp_path, "1/variables/variables.data-00000-of-00001").stat().st_size < 5 * model.count_params()
    assert not compiled_functions(read_saved_model(tmp_path / "1"))


@pytest.mark.slow
def test_mixed_precision_answers_in_float32(tmp_path):
    model = classifier(dtype="mixed_bfloat16")
    loaded = tf.saved_model.load(export_for_serving(model, tmp_path))
    answer = loaded.signatures["serving_default"](text=tf.constant(TEXTS))
    assert answer["probabilities"].dtype == answer["probability"].dtype == tf.float32
    np.testing.assert_allclose(answer["probabilities"], predicted(model, features(TEXTS)), atol=1e-2)


# Has only what a server has: TensorFlow and the text operations. It prints the operations that are not TensorFlow's own
# and the answers of each export.
SERVER = """
import glob, importlib.util, json, sys

text_folder = importlib.util.find_spec("tensorflow_text").submodule_search_locations[0]


class WithoutOurs:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in ("keras", "tf_keras", "keras_bert", "tensorflow_text"):
            return self.finder.find_spec(name, path, target)


sys.meta_path[:] = map(WithoutOurs, sys.meta_path)

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

questions = json.loads(sys.stdin.read())
foreign = set()
for folder, _ in questions.values():
    with open(folder + "/saved_model.pb", "rb") as file:
        graph = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs[0].graph_def
    functions = {function.signature.name for function in graph.library.function}
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    foreign |= {node.op for node in nodes if node.op not in functions and op_def_registry.get(node.op) is None}
for library in glob.glob(text_folder + "/python/ops/*.so"):
    tf.load_op_library(library)
answers = {}
for name, (folder, inputs) in questions.items():
    answer = tf.saved_model.load(folder).signatures["serving_default"]
    outputs = answer(**{key: tf.constant(value) for key, value in inputs.items()})
    answers[name] = {key: value.numpy().astype("U" if value.dtype == tf.string else "f").tolist()
                     for key, value in outputs.items()}
ours = sorted(name for name in sys.modules if name.split(".")[0] in ("keras", "keras_bert", "tensorflow_text"))
print(json.dumps({"foreign": sorted(foreign), "answers": answers, "ours": ours}))
"""


@pytest.mark.slow
def test_exports_answer_where_neither_keras_nor_this_package_is(exports, ask, tmp_path):
    texts = [text for text in TEXTS if isinstance(text, str)]
    inputs = {
        "single": {"text": texts},
        "pairs": {"text": texts, "text_b": texts[::-1]},
        "masked": {"text": MASKED_TEXTS},
    }
    questions = {name: (folder, inputs[name]) for name, (_, folder) in exports.items()}
    result = subprocess.run(
        [sys.executable, "-I", "-c", SERVER],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    result = json.loads(result.stdout)
    assert result["ours"] == []
    assert set(result["foreign"]) <= SERVED_TEXT_OPERATIONS, "stock servers do not have these operations"
    for name, answer in result["answers"].items():
        expected = ask(name, **inputs[name])
        assert set(answer) == set(expected)
        for key, values in expected.items():
            if values.dtype == object:
                assert np.array(answer[key]).tolist() == values.astype(str).tolist()
            else:
                np.testing.assert_allclose(answer[key], values, atol=1e-5)
    single = np.array(result["answers"]["single"]["probabilities"])
    np.testing.assert_allclose(single, predicted(exports["single"][0], features(texts)), atol=1e-5)


@pytest.mark.slow
def test_real_text_has_the_answers_of_predict(shared_data, tmp_path):
    vocabulary = Vocabulary.from_file(shared_data("vocab", "bert-base-uncased-vocab.txt"))
    config = CONFIG.replace(vocab_size=len(vocabulary), max_position_embeddings=64)
    model = classifier(config, vocabulary)
    with open(shared_data("corpus", "wikipedia_articles.txt"), encoding="utf-8") as file:
        paragraphs = [line.strip() for line, _ in zip(file, range(20_000), strict=False) if line.strip()]
    firsts, seconds = paragraphs[:2000:20], paragraphs[7:2007:20]
    seconds[::3] = [text[:50] for text in seconds[::3]]
    loaded = tf.saved_model.load(export_for_serving(model, tmp_path, text_pairs=True))
    answer = loaded.signatures["serving_default"](text=tf.constant(firsts), text_b=tf.constant(seconds))
    expected = predicted(model, features(firsts, seconds, config, vocabulary))
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)


@pytest.mark.slow
def test_the_command_exports_the_same_bytes_in_another_process(exports, tmp_path):
    model, folder = exports["single"]
    model.save_pretrained(tmp_path / "model")
    command = [sys.executable, "-m", "run_scripts.export_model"]
    command += [f"--model_dir={tmp_path / 'model'}", f"--output_dir={tmp_path / 'model'}"]
    result = subprocess.run(
        command, capture_output=True, text=True, cwd=PROJECT, env={**os.environ, "PYTHONHASHSEED": "77"}
    )
    assert result.returncode == 0, result.stderr
    assert f"SequenceClassifier exported to {tmp_path / 'model' / '1'}" in result.stdout
    first, second = files_below(folder), files_below(tmp_path / "model" / "1")
    assert first.pop("fingerprint.pb") != second.pop("fingerprint.pb")
    assert first == second


def test_a_model_without_a_vocabulary_is_refused(tmp_path):
    with pytest.raises(InputError, match="no vocabulary, so its export could not take texts. Set model.vocabulary"):
        export_for_serving(classifier(vocabulary=None), tmp_path)
    other = Vocabulary([*VOCABULARY.tokens, "cat"])
    with pytest.raises(InputError, match="The vocabulary has 18 tokens but bert_config.json says vocab_size=17"):
        export_for_serving(classifier(vocabulary=other), tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_model_that_only_trains_is_refused(tmp_path):
    with pytest.raises(
        InputError, match="Only these models can be exported: .*SequenceClassifier.* Received: Sequential"
    ):
        export_for_serving(keras.Sequential(), tmp_path)


def test_an_unknown_option_is_refused_with_those_that_there_are(tmp_path):
    with pytest.raises(InputError, match="Exports have no option top_n. Use one of: max_seq_length, text_pairs, top_k"):
        export_for_serving(classifier(), tmp_path, top_n=3)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (pretrainer, {"top_k": 0}, "top_k must be between 1 and the vocabulary's 17. Received: 0"),
        (pretrainer, {"top_k": 18}, "top_k must be between 1 and the vocabulary's 17. Received: 18"),
        (
            pretrainer,
            {"text_pairs": True},
            "text_pairs is for exports of .*SequenceClassifier, .* only. Received: BertP",
        ),
        (classifier, {"max_seq_length": 17}, "A sequence length of 17 is more than this model's 16 positions"),
        (classifier, {"max_seq_length": 2}, "max_seq_length must be at least 3. Received: 2"),
        (classifier, {"dtype": "float16"}, "dtype must be float32 or bfloat16. Received: 'float16'"),
        (classifier, {"weights": "int4"}, "weights must be int8 or None. Received: 'int4'"),
        (classifier, {"weights": "int8", "dtype": "bfloat16"}, "weights=int8 computes in float32"),
        (lambda: encoder(), {"pooling": "sum"}, "pooling must be one of cls, max, mean.*Received: 'sum'"),
        (classifier, {"max_seq_length": 4, "text_pairs": True}, "max_seq_length must be at least 5. Received: 4"),
    ],
)
def test_options_out_of_range_are_refused(tmp_path, make, options, message):
    with pytest.raises(InputError, match=message):
        export_for_serving(make(), tmp_path, **options)


def test_a_model_of_one_segment_takes_no_pairs(tmp_path):
    model = classifier(CONFIG.replace(type_vocab_size=1))
    with pytest.raises(InputError, match="cannot take pairs of texts"):
        export_for_serving(model, tmp_path, text_pairs=True)


def test_a_place_that_cannot_be_written_is_one_clear_message(tmp_path):
    model = classifier()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="The export folder .*file is a file. Give the name of a folder"):
        export_for_serving(model, tmp_path / "file")
    with pytest.raises(InputError, match="a part of the path is a file, not a folder"):
        export_for_serving(model, tmp_path / "file" / "below")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_one_clear_message(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="Cannot write .*: permission denied"):
        export_for_serving(classifier(), tmp_path / "model")


def test_a_full_disk_leaves_nothing_behind(tmp_path):
    # TensorFlow handles a full disk and a limit in the same way.
    with file_size_limit(10_000), pytest.raises(InputError, match="Cannot write .*1: a file grew over the size limit"):
        export_for_serving(classifier(), tmp_path / "model")
    assert os.listdir(tmp_path / "model") == []
    full = tf.errors.ResourceExhaustedError(None, None, "variables.data-00000-of-00001; No space left on device")

    def save(*_, **__):
        raise full

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.saved_model, "save", save)
        with pytest.raises(InputError, match="no space is left on the disk"):
            export_for_serving(classifier(), tmp_path / "model")
    assert os.listdir(tmp_path / "model") == []
