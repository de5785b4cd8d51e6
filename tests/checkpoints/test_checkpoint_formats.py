"""Reading and writing every format: nothing that a format can hold is lost, and losses are reported."""

import itertools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from keras import tree
from numpy_bert import scatter_weights
from tiny_checkpoints import CONFIG, FEATURES, VOCABULARY, assert_same_tensors, random_checkpoint

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.formats import WRITERS, read_checkpoint, write_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.checkpoints.safetensors_file import read_safetensors, write_safetensors
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tasks.multiple_choice.model import MultipleChoice
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.question_answering.model import SpanClassifier
from keras_bert.tasks.tagging.model import TokenClassifier
from keras_bert.tokenization.graph_wordpiece import GraphTokenizer
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

LABELS = ("no", "yes", "maybe")
HEADS = {
    "encoder": ((), None, BertEncoder),
    "pretrainer": ((form.MASKED_LM, form.NEXT_SENTENCE), None, BertPretrainer),
    "masked_lm": ((form.MASKED_LM,), None, MaskedLM),
    "next_sentence": ((form.NEXT_SENTENCE,), None, BertPretrainer),
    "classifier": ((form.CLASSIFIER,), LABELS, SequenceClassifier),
    "tagger": (("token_classifier",), LABELS, TokenClassifier),
    "span": (("span_classifier",), None, SpanClassifier),
    "choice": (("choice_scorer",), None, MultipleChoice),
}


FORMATS = list(WRITERS)


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("format", FORMATS)
def test_what_is_written_comes_back_to_the_byte(format, kind, tmp_path):
    heads, labels, model_class = HEADS[kind]
    checkpoint = random_checkpoint(*heads, labels=labels)
    notes = write_checkpoint(checkpoint, tmp_path / "folder", format)
    back = read_checkpoint(tmp_path / "folder")
    assert notes == []
    assert_same_tensors(checkpoint, back)
    assert back.config == CONFIG
    assert back.vocabulary == VOCABULARY
    assert back.labels == labels
    assert back.ignored == ()
    if format == "huggingface":
        assert type(from_pretrained(None, tmp_path / "folder")) is model_class


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(FORMATS, 2)))
def test_there_and_back_through_another_format_changes_no_byte(first, second, tmp_path):
    checkpoint = random_checkpoint(form.MASKED_LM, form.NEXT_SENTENCE)
    write_checkpoint(checkpoint, tmp_path / "one", first)
    write_checkpoint(read_checkpoint(tmp_path / "one"), tmp_path / "two", second)
    write_checkpoint(read_checkpoint(tmp_path / "two"), tmp_path / "three", first)
    for file in (tmp_path / "one").iterdir():
        if file.suffix != ".h5":  # HDF5 keeps times
            assert file.read_bytes() == (tmp_path / "three" / file.name).read_bytes(), file.name
    assert_same_tensors(checkpoint, read_checkpoint(tmp_path / "three"))


@pytest.mark.parametrize("format", ["keras_bert", "huggingface"])
def test_a_decoder_of_its_own_travels(format, tmp_path):
    checkpoint = random_checkpoint(form.MASKED_LM, form.NEXT_SENTENCE, config=CONFIG.replace(tie_word_embeddings=False))
    write_checkpoint(checkpoint, tmp_path / "folder", format)
    back = read_checkpoint(tmp_path / "folder")
    assert_same_tensors(checkpoint, back)
    assert not back.config.tie_word_embeddings


def test_google_has_no_place_for_a_decoder_of_its_own(tmp_path):
    checkpoint = random_checkpoint(form.MASKED_LM, config=CONFIG.replace(tie_word_embeddings=False))
    with pytest.raises(InputError, match="has its own output table .* Google's format cannot hold"):
        write_checkpoint(checkpoint, tmp_path / "folder", "google")
    assert list(tmp_path.iterdir()) == []


def test_a_decoder_of_its_own_is_used(tmp_path, capsys):
    checkpoint = random_checkpoint(form.MASKED_LM, form.NEXT_SENTENCE, config=CONFIG.replace(tie_word_embeddings=False))
    write_checkpoint(checkpoint, tmp_path / "folder", "huggingface")
    untied = BertPretrainer.from_pretrained(tmp_path / "folder")(FEATURES)["masked_lm_logits"]
    tensors = {**checkpoint.tensors, form.OUTPUT_EMBEDDINGS: checkpoint.tensors[form.TOKEN_EMBEDDINGS]}
    write_checkpoint(checkpoint.replace(tensors=tensors), tmp_path / "same", "huggingface")
    tied = BertPretrainer.from_pretrained(tmp_path / "same")(FEATURES)["masked_lm_logits"]
    assert np.abs(untied - tied).max() > 0.01


@pytest.mark.parametrize("activation", ["gelu", "gelu_erf", "relu"])
@pytest.mark.parametrize("do_lower_case", [True, False])
@pytest.mark.parametrize("format", FORMATS)
def test_gelu_casing_and_epsilon_travel(format, do_lower_case, activation, tmp_path):
    config = CONFIG.replace(hidden_act=activation, do_lower_case=do_lower_case, layer_norm_eps=1e-5, type_vocab_size=1)
    notes = write_checkpoint(random_checkpoint(config=config), tmp_path / "folder", format)
    assert read_checkpoint(tmp_path / "folder").config == config
    warns_of_gelu = any("only the tanh approximation of GELU" in note for note in notes)
    assert warns_of_gelu == (format == "google" and activation == "gelu_erf")
    assert any("computes LayerNorm with 1e-12" in note for note in notes) == (format == "google")


def test_gelu_is_named_as_each_format_names_it(tmp_path):
    for activation, hugging_face_name in (("gelu", "gelu_new"), ("gelu_erf", "gelu")):
        checkpoint = random_checkpoint(config=CONFIG.replace(hidden_act=activation))
        for format, file, name in (
            ("huggingface", "config.json", hugging_face_name),
            ("google", "bert_config.json", activation),
        ):
            write_checkpoint(checkpoint, tmp_path / activation / format, format)
            assert json.loads((tmp_path / activation / format / file).read_text())["hidden_act"] == name


def test_weights_without_a_pooler_stay_without_one(tmp_path, capsys):
    checkpoint = random_checkpoint(form.MASKED_LM, with_pooler=False)
    for format in WRITERS:
        write_checkpoint(checkpoint, tmp_path / format, format)
        assert_same_tensors(checkpoint, read_checkpoint(tmp_path / format))
    BertEncoder.from_pretrained(tmp_path / "google")
    assert (
        "loaded are: encoder; newly initialised are: pooler (until it is trained, pooled_output is random; "
        "sequence_output does not depend on it); ignored are: masked_lm_head\n"
    ) in capsys.readouterr().out


# The bytes of every kind in every format are compared above.
@pytest.mark.parametrize(
    ("kind", "format"),
    [
        *(("classifier", format) for format in FORMATS),
        *zip(["pretrainer", "masked_lm", "tagger", "span", "choice"], itertools.cycle(FORMATS), strict=False),
    ],
)
def test_a_model_saves_itself_in_every_format(kind, format, tmp_path):
    _, labels, model_class = HEADS[kind]
    model = model_class(CONFIG, **({"labels": labels} if labels else {}))
    scatter_weights(model)
    model.save_pretrained(tmp_path / "folder", VOCABULARY, format=format)
    loaded = from_pretrained(None, tmp_path / "folder")
    assert type(loaded) is model_class
    assert labels is None or loaded.labels == labels
    assert loaded.vocabulary == VOCABULARY
    inputs = FEATURES
    if model_class is MultipleChoice:
        inputs = {name: values[:, None] for name, values in FEATURES.items() if name != "masked_lm_positions"}
    tree.map_structure(np.testing.assert_array_equal, loaded(inputs), model(inputs))


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(InputError, match="Unknown format 'onnx'. Use one of: keras_bert, google, huggingface"):
        BertEncoder(CONFIG).save_pretrained(tmp_path / "folder", format="onnx")


def test_labels_of_the_user_name_the_outputs_that_had_no_names(tmp_path, capsys):
    checkpoint = random_checkpoint(form.CLASSIFIER, labels=("LABEL_0", "LABEL_1", "LABEL_2"))
    write_checkpoint(checkpoint, tmp_path / "folder", "huggingface")
    model = SequenceClassifier.from_pretrained(tmp_path / "folder", labels=LABELS)
    assert model.labels == LABELS
    assert "loaded are: classifier, encoder\n" in capsys.readouterr().out
    np.testing.assert_array_equal(model.classifier.kernel, checkpoint.tensors["classifier/kernel"].read())


def test_a_classifier_needs_labels_from_somewhere(tmp_path):
    write_checkpoint(random_checkpoint(), tmp_path / "folder", "google")
    with pytest.raises(InputError, match=r"SequenceClassifier needs labels, .* has none. Give labels=\[...\]"):
        SequenceClassifier.from_pretrained(tmp_path / "folder")


# The files themselves.


# Weights of equal shape. A name table that mixes them up in both directions would pass all other tests.
# Google's name, ours. tests/parity has files of transformers.
_GOOGLE, _OURS = "bert/encoder/layer_1", "encoder/layer_1"
ALIKE = [
    *((f"{_GOOGLE}/attention/self/{name}", f"{_OURS}/attention/{name}") for name in ("query", "key", "value")),
    (f"{_GOOGLE}/attention/output/dense", f"{_OURS}/attention/output_dense"),
    ("bert/pooler/dense", "encoder/pooler/dense"),
    ("cls/predictions/transform/dense", "masked_lm_head/dense"),
]
NORMS = [
    ("bert/embeddings/LayerNorm", "encoder/embeddings/layer_norm"),
    (f"{_GOOGLE}/attention/output/LayerNorm", f"{_OURS}/attention_layer_norm"),
    (f"{_GOOGLE}/output/LayerNorm", f"{_OURS}/output_layer_norm"),
    ("cls/predictions/transform/LayerNorm", "masked_lm_head/layer_norm"),
]


def test_google_files_have_googles_names_for_plain_tensorflow(tmp_path):
    checkpoint = random_checkpoint(form.MASKED_LM, form.NEXT_SENTENCE)
    write_checkpoint(checkpoint, tmp_path / "folder", "google")
    names = ["bert_config.json", "bert_model.ckpt.data-00000-of-00001", "bert_model.ckpt.index", "vocab.txt"]
    assert sorted(file.name for file in (tmp_path / "folder").iterdir()) == names
    reader = tf.train.load_checkpoint(str(tmp_path / "folder" / "bert_model.ckpt"))
    assert len(reader.get_variable_to_shape_map()) == 46
    for theirs, ours, transposed in (
        ("bert/embeddings/word_embeddings", "encoder/embeddings/token_embeddings", False),
        *((f"{theirs}/{w}", f"{ours}/{w}", False) for theirs, ours in ALIKE for w in ("kernel", "bias")),
        *((f"{theirs}/{w}", f"{ours}/{w}", False) for theirs, ours in NORMS for w in ("gamma", "beta")),
        ("cls/predictions/output_bias", "masked_lm_head/output_bias", False),
        ("cls/seq_relationship/output_weights", "next_sentence_head/kernel", True),
    ):
        expected = checkpoint.tensors[ours].read()
        np.testing.assert_array_equal(reader.get_tensor(theirs), expected.T if transposed else expected)


def test_all_139_variables_of_a_real_google_checkpoint_are_accounted_for(shared_data, capsys):
    folder = shared_data("checkpoints", "google_tf1_micro", "bert_config.json").parent
    reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    assert len(reader.get_variable_to_shape_map()) == 139
    checkpoint = read_checkpoint(folder)
    assert len(checkpoint.tensors) == 46
    assert checkpoint.ignored == ("93 variables of the optimizer",)
    np.testing.assert_array_equal(
        checkpoint.tensors["encoder/layer_1/output_dense/kernel"].read(),
        reader.get_tensor("bert/encoder/layer_1/output/dense/kernel"),
    )
    assert checkpoint.vocabulary.tokens[-1] == "boy"
    BertPretrainer.from_pretrained(folder)
    assert capsys.readouterr().out == (
        f"BertPretrainer from {folder} (Google TensorFlow 1): loaded are: encoder, masked_lm_head, next_sentence_head; "
        "ignored are: 93 variables of the optimizer\n"
    )


@pytest.mark.parametrize(("name", "count"), [("medium", 142), ("chinese", 206)])
def test_the_variables_of_googles_models_are_known_and_of_the_right_shape(shared_data, name, count):
    from keras_bert.checkpoints import google
    from keras_bert.checkpoints.tensor_checks import check_tensors

    folder = shared_data("checkpoints", f"google_tf1_{name}_index_only", "bert_config.json").parent
    prefix = str(folder / "bert_model.ckpt")
    shapes = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
    variables = {key: StoredTensor(tuple(shape), "float32", None) for key, shape in shapes.items()}
    checkpoint = google.google_checkpoint(prefix, variables)
    check_tensors(checkpoint)
    assert len(checkpoint.tensors) == len(shapes) == count
    assert checkpoint.ignored == ()
    with pytest.raises(InputError, match="bert_model.ckpt.data-00000-of-00001 is missing. Copy all files"):
        read_checkpoint(folder)


def test_hugging_face_folders_have_the_files_that_transformers_looks_for(tmp_path):
    write_checkpoint(random_checkpoint(form.CLASSIFIER, labels=LABELS), tmp_path / "folder", "huggingface")
    names = ["README.md", "config.json", "model.safetensors", "special_tokens_map.json", "tokenizer.json"]
    names += ["tokenizer_config.json", "vocab.txt"]
    assert sorted(file.name for file in (tmp_path / "folder").iterdir()) == names
    config = json.loads((tmp_path / "folder" / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["id2label"] == {"0": "no", "1": "yes", "2": "maybe"}
    from tokenizers import Tokenizer

    encoded = Tokenizer.from_file(str(tmp_path / "folder" / "tokenizer.json")).encode("The quickest fóx", "[MASK]")
    assert encoded.tokens == ["[CLS]", "the", "quick", "##est", "fox", "[SEP]", "[MASK]", "[SEP]"]
    assert encoded.type_ids == [0, 0, 0, 0, 0, 0, 1, 1]


def test_a_vocabulary_is_found_in_tokenizer_json_alone(tmp_path):
    write_checkpoint(random_checkpoint(), tmp_path / "folder", "huggingface")
    (tmp_path / "folder" / "vocab.txt").unlink()
    assert read_checkpoint(tmp_path / "folder").vocabulary == VOCABULARY


def test_weights_of_sixteen_and_eight_bits_are_read(tmp_path):
    checkpoint = random_checkpoint()
    import ml_dtypes

    for dtype in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        narrow = {name: StoredTensor.of(tensor.read().astype(dtype)) for name, tensor in checkpoint.tensors.items()}
        narrow = checkpoint.replace(tensors=narrow)
        folder = tmp_path / np.dtype(dtype).name
        write_checkpoint(narrow, folder, "huggingface")
        assert_same_tensors(narrow, read_checkpoint(folder))
        write_checkpoint(narrow, folder / "google", "google")
        assert_same_tensors(narrow, read_checkpoint(folder / "google"))
        write_checkpoint(narrow, folder / "ours")
        for name, tensor in read_checkpoint(folder / "ours").tensors.items():
            np.testing.assert_array_equal(tensor.read(), narrow.tensors[name].read().astype("float32"))
        encoder = BertEncoder.from_pretrained(folder)
        assert encoder.weights[0].dtype == "float32"
        np.testing.assert_array_equal(
            encoder.weights[0], narrow.tensors[form.TOKEN_EMBEDDINGS].read().astype("float32")
        )


def test_parts_of_a_sharded_checkpoint_are_put_together(tmp_path):
    write_checkpoint(random_checkpoint(), tmp_path / "whole", "huggingface")
    checkpoint = read_checkpoint(tmp_path / "whole")
    tensors = read_safetensors(tmp_path / "whole" / "model.safetensors")
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    (tmp_path / "parts" / "model.safetensors").unlink()
    names, weight_map = sorted(tensors), {}
    for number, part in enumerate((names[:20], names[20:]), start=1):
        file_name = f"model-{number:05}-of-00002.safetensors"
        with open(tmp_path / "parts" / file_name, "wb") as file:
            write_safetensors(file, {name: tensors[name] for name in part}, {"format": "pt"})
        weight_map |= dict.fromkeys(part, file_name)
    (tmp_path / "parts" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert_same_tensors(checkpoint, read_checkpoint(tmp_path / "parts"))


# Positions and tokens.


def test_positions_are_cut_and_repeated(tmp_path, capsys):
    checkpoint = random_checkpoint()
    write_checkpoint(checkpoint, tmp_path / "folder", "google")
    table = checkpoint.tensors[form.POSITION_EMBEDDINGS].read()
    short = BertEncoder.from_pretrained(tmp_path / "folder", max_position_embeddings=5)
    long = BertEncoder.from_pretrained(tmp_path / "folder", max_position_embeddings=30)
    assert (short.config.max_position_embeddings, long.config.max_position_embeddings) == (5, 30)
    np.testing.assert_array_equal(short.embeddings.position_embeddings, table[:5])
    np.testing.assert_array_equal(long.embeddings.position_embeddings, np.concatenate([table, table, table[:6]]))
    np.testing.assert_array_equal(short(FEATURES)["sequence_output"], long(FEATURES)["sequence_output"])


def test_new_tokens_start_as_the_mean_of_their_pieces(tmp_path, capsys):
    checkpoint = random_checkpoint(form.MASKED_LM, form.NEXT_SENTENCE)
    write_checkpoint(checkpoint, tmp_path / "folder", "google")
    model = BertPretrainer.from_pretrained(tmp_path / "folder", new_tokens=["quickest", "zebra", "##quickest"])
    assert model.vocabulary.tokens[-3:] == ("quickest", "zebra", "##quickest")
    assert model.config.vocab_size == 13
    table = checkpoint.tensors[form.TOKEN_EMBEDDINGS].read()
    np.testing.assert_allclose(model.encoder.embeddings.token_embeddings[10], (table[6] + table[9]) / 2, atol=1e-7)
    np.testing.assert_allclose(model.encoder.embeddings.token_embeddings[11], table[1], atol=1e-7)
    np.testing.assert_allclose(model.encoder.embeddings.token_embeddings[12], (table[6] + table[9]) / 2, atol=1e-7)
    np.testing.assert_array_equal(model.encoder.embeddings.token_embeddings[:10], table)
    assert model(FEATURES)["masked_lm_logits"].shape == (2, 1, 13)


def test_new_tokens_that_words_are_never_cut_into_are_found_as_a_whole(tmp_path):
    write_checkpoint(random_checkpoint(), tmp_path / "folder", "google")
    new = ["[E1]", "co-vid", "Zed", "zebra"]
    model = BertEncoder.from_pretrained(tmp_path / "folder", new_tokens=new)
    count = len(model.vocabulary)
    assert [token.content for token in model.vocabulary.added_tokens] == new[:3]
    for format in ("keras_bert", "huggingface"):
        model.save_pretrained(tmp_path / format, format=format)
        vocabulary = BertEncoder.from_pretrained(tmp_path / format).vocabulary
        tokenizer = WordPieceTokenizer(vocabulary, do_lower_case=True)
        expected = [count - 4, count - 2, count - 3, count - 1, count - 3]
        assert tokenizer.encode("[E1]zed CO-VID zebra co-vid") == expected
        assert GraphTokenizer(vocabulary).tokenize(["[E1]zed CO-VID zebra co-vid"]).to_list() == [expected]
    with pytest.raises(InputError, match="The new token '##Zed' is in no text after its normalisation"):
        BertEncoder.from_pretrained(tmp_path / "folder", new_tokens=["##Zed"])
    with pytest.raises(InputError, match="already has zebra"):
        BertEncoder.from_pretrained(tmp_path / "folder", new_tokens=["zebra", "zebra"])
