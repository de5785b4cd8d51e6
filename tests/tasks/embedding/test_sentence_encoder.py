"""`SentenceEncoder`: pooling, dense layers, prompts, training on texts, and folders of sentence-transformers."""

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tiny_checkpoints import CONFIG, FEATURES, change_json, random_checkpoint

from keras_bert import AdamW, BertEncoder, InputError, SentenceEncoder
from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained, model_of
from keras_bert.checkpoints.safetensors_file import read_safetensors
from keras_bert.config import POOLINGS
from keras_bert.layers import text_pooling
from keras_bert.tasks import prediction
from keras_bert.tasks.embedding.encoding import LoadedSentenceEncoder, SentenceEncoding
from keras_bert.tasks.embedding.losses import CoSENT, InBatchNegatives, Matryoshka
from keras_bert.tasks.embedding.teacher_losses import MarginMSE
from keras_bert.tasks.multi_vector.encoding import LateInteraction
from keras_bert.tasks.sparse.encoding import SparseEncoding

pytestmark = pytest.mark.usefixtures("without_graphs")

TEXTS = ["the quick fox", "the brown fox", "quick", "brown the fox quickest"]
OTHERS = ["quick the fox", "fox brown", "quickest", "the fox"]
NAMES = ("input_ids", "input_mask", "segment_ids")


@pytest.fixture
def folder(tmp_path):
    config = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    write_checkpoint(random_checkpoint(config=config), tmp_path / "folder", "huggingface")
    return tmp_path / "folder"


def encoder(folder, **arguments):
    return SentenceEncoder.from_pretrained(folder, **arguments)


def expected_pooling(hidden, mask, name):
    """The poolings of sentence-transformers, row by row."""
    rows = [row[: int(length)] for row, length in zip(hidden, mask.sum(axis=1), strict=True)]
    weights = [np.arange(1, len(row) + 1)[:, None] for row in rows]
    pool = {
        "cls": lambda row, _: row[0],
        "max": lambda row, _: row.max(axis=0),
        "mean": lambda row, _: row.mean(axis=0),
        "mean_sqrt_len_tokens": lambda row, _: row.sum(axis=0) / np.sqrt(len(row)),
        "weightedmean": lambda row, weight: (row * weight).sum(axis=0) / weight.sum(),
        "lasttoken": lambda row, _: row[-1],
    }[name]
    return np.stack([pool(row, weight) for row, weight in zip(rows, weights, strict=True)])


@pytest.mark.parametrize("name", POOLINGS)
def test_a_pooling_is_computed_from_the_tokens_of_a_row(name, folder):
    model = encoder(folder, pooling=[name], normalize=False)
    inputs = {feature: FEATURES[feature] for feature in NAMES}
    hidden = np.asarray(model.encoder(inputs)["sequence_output"])
    expected = expected_pooling(hidden, FEATURES["input_mask"], name)
    np.testing.assert_allclose(np.asarray(model(inputs)), expected, atol=1e-6)


def test_several_poolings_are_joined_and_pass_dense_layers(folder):
    model = encoder(folder, pooling=["mean", "cls"], dense=[{"units": 5}, {"units": 3, "activation": "linear"}])
    assert model.pooling == ("mean", "cls")  # the order in which they are joined
    inputs = {feature: FEATURES[feature] for feature in NAMES}
    hidden = np.asarray(model.encoder(inputs)["sequence_output"])
    found = np.concatenate([expected_pooling(hidden, FEATURES["input_mask"], name) for name in ("mean", "cls")], axis=1)
    first, second = ([np.asarray(weight) for weight in layer.weights] for layer in model.sentence_head.dense_layers)
    expected = np.tanh(found @ first[0] + first[1]) @ second[0] + second[1]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(np.asarray(model(inputs)), expected, atol=1e-6)
    assert model.embedding_size == 3


def test_the_vectors_of_texts_do_not_depend_on_the_batch(folder):
    model = encoder(folder)
    vectors = model.encode(TEXTS)
    assert vectors.shape == (4, CONFIG.hidden_size)
    np.testing.assert_allclose(vectors, np.concatenate([model.encode(text) for text in TEXTS]), atol=1e-6)
    np.testing.assert_allclose(vectors, model.predict(TEXTS, verbose=0), atol=1e-6)
    cut = model.encode(TEXTS, dimensions=3)
    np.testing.assert_allclose(cut, vectors[:, :3] / np.linalg.norm(vectors[:, :3], axis=1, keepdims=True), atol=1e-6)


def test_a_prompt_is_put_before_each_text(folder):
    model = encoder(folder, prompts={"query": "quick ", "passage": "brown "}, default_prompt="passage")
    np.testing.assert_array_equal(model.encode("fox", prompt="query"), model.encode("quick fox", prompt=""))
    np.testing.assert_array_equal(model.encode("fox"), model.encode("brown fox", prompt=""))
    assert (model.prompt_for("query"), model.prompt_for("document")) == ("query", "passage")
    with pytest.raises(InputError, match="The model has no prompt 'title'. Its prompts are: query, passage."):
        model.encode("fox", prompt="title")


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("normalise", "max_seq_length, on_progress.$"),
        ("normalize_embeddings", "Give normalize=True"),
        ("show_progress_bar", "Give on_progress, a function"),
        ("precision", "The vectors are float32"),
        ("convert_to_tensor", "The vectors are arrays"),
    ],
)
@pytest.mark.parametrize("verb", [SentenceEncoder.encode, LoadedSentenceEncoder.encode])
def test_an_unknown_option_of_encode_is_refused_with_those_that_there_are(verb, option, hint):
    model = SimpleNamespace(encode=verb)
    with pytest.raises(InputError, match=f"encode has no option {option}. It has: normalize, prompt, .*{hint}"):
        verb(model, ["fox"], **{option: True})


def test_other_encoders_refuse_unknown_options_with_the_hints_that_they_can_follow():
    with pytest.raises(InputError, match="It has: task, .*on_progress. Give prompt, which"):
        SparseEncoding.encode(SimpleNamespace(encode=SparseEncoding.encode), ["fox"], prompt_name="query")
    late = SimpleNamespace(encode_query=LateInteraction.encode_query)
    with pytest.raises(InputError, match="encode_query has no option prompt_name. It has: batch_size, on_progress.$"):
        LateInteraction.encode_query(late, ["fox"], prompt_name="query")


@pytest.mark.parametrize(("texts", "total"), [(TEXTS, len(TEXTS)), (iter(TEXTS), None)])
def test_encoding_shows_a_bar_after_ten_seconds_or_calls_what_is_given(texts, total, folder, monkeypatch):
    bars, steps = [], []

    class Bar(contextlib.nullcontext):
        def __init__(self, **options):
            super().__init__(self)
            bars.append(options)

        update = steps.append

    monkeypatch.setattr(prediction, "progress_bar", Bar)
    model = encoder(folder)
    model.encode(texts, batch_size=2)
    assert (bars[0]["total"], bars[0]["delay"], sum(steps)) == (total, 10, len(TEXTS))
    model.encode(TEXTS, on_progress=steps.append)
    assert (len(bars), sum(steps)) == (1, 2 * len(TEXTS))


def test_similarities_are_cosines():
    vectors, others = [[3.0, 4.0], [0.0, 2.0]], [[0.0, 1.0], [1.0, 0.0]]
    compare = SentenceEncoding()
    np.testing.assert_allclose(compare.similarity(vectors, others), [[0.8, 0.6], [1, 0]], rtol=1e-6)
    np.testing.assert_allclose(compare.similarity(vectors[0], others), [[0.8, 0.6]], rtol=1e-6)
    np.testing.assert_allclose(compare.similarity_pairwise(vectors, others), [0.8, 0], rtol=1e-6)
    with pytest.raises(InputError, match=r"of one model. Received the shapes \[2, 2\] and \[1, 3\]"):
        compare.similarity(vectors, [[1.0, 0.0, 0.0]])
    with pytest.raises(InputError, match="must be equally many. Received: 2 and 1"):
        compare.similarity_pairwise(vectors, others[0])
    with pytest.raises(InputError, match="not numbers"):
        compare.similarity(vectors, [[np.nan, 1.0]])


@pytest.mark.parametrize("format", ["keras_bert", "huggingface"])
def test_a_saved_model_gives_the_same_vectors(format, folder, tmp_path):
    arguments = {"pooling": ["max", "cls"], "prompts": {"query": "the "}, "max_seq_length": 5, "normalize": False}
    model = encoder(folder, dense=[{"units": 6, "use_bias": False}, {"units": 4, "activation": "relu"}], **arguments)
    model.new_parts.set_trained()
    model.save_pretrained(tmp_path / "saved", format=format)
    loaded = from_pretrained(None, tmp_path / "saved")
    assert isinstance(loaded, SentenceEncoder)
    assert {name: loaded.get_config()[name] for name in model.get_config() if name != "name"} == {
        name: value for name, value in model.get_config().items() if name != "name"
    }
    np.testing.assert_allclose(loaded.encode(TEXTS, prompt="query"), model.encode(TEXTS, prompt="query"), atol=1e-6)
    loaded.save_pretrained(tmp_path / "again", format="huggingface")  # from our folder, too
    for layer in ("2_Dense", "3_Dense"):
        bias = set() if layer == "2_Dense" else {"linear.bias"}
        assert set(read_safetensors(tmp_path / "again" / layer / "model.safetensors")) == {"linear.weight"} | bias


SIMILAR = (TEXTS, OTHERS)


def test_the_examples_select_the_loss_and_the_scores(eagerly, folder):
    model = encoder(folder)
    model.fit(SIMILAR, verbose=0)
    assert not model.encoder.pooler.trainable
    assert model.embedding_loss == InBatchNegatives()
    assert set(model.evaluate(SIMILAR, verbose=0)) >= {"ndcg@10", "mrr@10", "recall@10", "map@100"}
    model.fit(SIMILAR, [0.0, 1.0, 0.5, 0.2], verbose=0)
    assert model.embedding_loss == CoSENT()
    assert set(model.evaluate(SIMILAR, [0.0, 1.0, 0.5, 0.2], verbose=0)) == {"spearman", "pearson"}
    assert set(model.evaluate(TEXTS, [0, 1, 0, 1], verbose=0)) == {"neighbour_accuracy"}


@pytest.mark.parametrize(
    ("x", "y", "loss", "message"),
    [
        (TEXTS, None, None, "nothing to learn from single texts"),
        (TEXTS, OTHERS, None, "label of its own, 'quick the fox' and others.*two columns"),
        ((TEXTS, OTHERS[:3]), None, None, "equally long. Received: 4 texts in column 1, 3 in column 2"),
        ((TEXTS, ["a", "b", " ", "d"]), None, None, "row 2, counted from 0: its text of column 2 is ' '"),
        (SIMILAR, [0.0, 1.0, 5.0, 0.2], "cosine", "between -1 and 1.*Received: 5.0.*Divide scores"),
        (SIMILAR, [0.0, 1.0, float("nan"), 0.2], None, "row 2, counted from 0: its label is nan"),
        (SIMILAR, None, "triplet", "Triplet learns from pairs, with 3 texts.*Received: pairs, with 2"),
        (SIMILAR, None, "cosent", "CoSENT learns from scores.*Received: pairs"),
        (SIMILAR, None, Matryoshka(InBatchNegatives(), [9]), "at most 8, the size of the vectors. Received: 9"),
        ((["fox"], ["quick"]), None, None, "two different anchors or more"),
        ((TEXTS, OTHERS, OTHERS), [1, 2, 3, 4], None, "no loss, and for lists of scores one must be named"),
        ((TEXTS, OTHERS, OTHERS), [[1, 2], [3, 4], [5], [6, 7]], "margin_mse", "all margins.*2 numbers in .* 1 in ex"),
        ((TEXTS, OTHERS, OTHERS), [[1, 2], [3, 4], [5, 6], [1, 2, 3]], "margin_mse", "example 4 must be 2 numbers"),
        ((TEXTS, OTHERS, OTHERS), [[1, 2], [3, 4], [5, "a"], [6, 7]], "margin_mse", "example 3 must be 2 numbers"),
        ((TEXTS, OTHERS, OTHERS), [1, 2, 3, 4], "distill_kl_div", "a score for each text after the first.*margins"),
        ((TEXTS, OTHERS, OTHERS), None, "margin_mse", "Received: pairs, with 3. Give the scores of a teacher, or the"),
        ((TEXTS, OTHERS, OTHERS), [1, 2, 3, 4], MarginMSE(teacher="x"), "has a teacher, and the examples have scores"),
        (SIMILAR, None, "gist_embed", "GISTEmbed needs a guide"),
        (SIMILAR, None, "batch_hard_triplet", "BatchHardTriplet learns from labels.*Received: pairs"),
        (SIMILAR, [0, 1, 0.5, 1], "contrastive", "needs the scores 1, for similar pairs, and 0. Received: 0.5"),
        (SIMILAR, None, "hinge", "one of: in_batch_negatives, gist_embed, .*batch_hard_triplet. Received: 'hinge'"),
    ],
)
def test_examples_that_do_not_fit_are_refused(x, y, loss, message, folder):
    with pytest.raises(InputError, match=message):
        encoder(folder).fit(x, y, loss=loss, verbose=0)


@pytest.mark.parametrize(("y", "loss"), [(None, None), ([0.1, 0.9, 0.5, 0.2], "cosent"), (None, "triplet")])
def test_fewer_examples_than_a_batch_are_one_batch(eagerly, y, loss, folder):
    losses = []
    for batch_size in (4, 32):
        model = encoder(folder)
        model.compile(AdamW(1e-3))
        x = (TEXTS, OTHERS, OTHERS[::-1]) if loss == "triplet" else SIMILAR
        history = model.fit(x, y, loss=loss, batch_size=batch_size, epochs=2, shuffle=False, verbose=0)
        losses.append(history.history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert losses[0][1] < losses[0][0]


def test_equal_texts_in_an_example_are_reported(folder, capsys):
    encoder(folder).fit((TEXTS, OTHERS, OTHERS), verbose=0)
    assert "in 4 of 4 examples two texts are equal" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pooling": ["median"]}, "pooling must be one or more of cls, max.*median"),
        ({"pooling": []}, "pooling must be one or more"),
        ({"dense": [{"units": 0}]}, "A dense layer has units"),
        ({"dense": [{"units": 3, "size": 4}]}, "A dense layer has units"),
        ({"dense": [{"units": 3, "activation": "swish"}]}, "swish"),
        ({"dense": [{"units": 2**20}]}, "units .1 to 16,384."),
        ({"dense": [{"units": 1}] * 9}, "At most 8 dense layers are possible. Received: 9"),
        ({"prompts": {"query": 1}}, "prompts must map names to texts"),
        ({"prompts": {"query": "half \ud83d"}}, "A prompt has half a surrogate pair at character 5"),
        ({"prompts": {str(number): "a" for number in range(101)}}, "At most 100 prompts are possible. Received: 101"),
        ({"default_prompt": "query"}, "no prompt 'query'. Its prompts are: none."),
        ({"max_seq_length": 2}, "max_seq_length must be a whole number of at least 3. Received: 2"),
    ],
)
def test_arguments_that_are_not_valid_are_refused(arguments, message, folder):
    with pytest.raises(InputError, match=message):
        encoder(folder, **arguments)


def test_both_passes_of_a_part_draw_the_same_dropout_and_each_part_another(monkeypatch):
    model = model_of(SentenceEncoder, random_checkpoint(config=CONFIG.replace(hidden_dropout_prob=0.5)))
    found, call = [], model.call

    def recorded(*arguments, **keywords):
        found.append(call(*arguments, **keywords))
        return found[-1]

    monkeypatch.setattr(model, "call", recorded)
    model.compile("sgd", gradient_accumulation_steps=2, run_eagerly=True)
    pairs = {name: np.tile(FEATURES[name][0], (4, 2, 1)) for name in NAMES}  # all texts are equal
    model.fit(tf.data.Dataset.from_tensors(pairs), verbose=0)
    first, second, first_again, second_again = (np.asarray(vectors) for vectors in found)
    np.testing.assert_array_equal(first, first_again)
    np.testing.assert_array_equal(second, second_again)
    assert (first != second).any()


def test_the_names_of_poolings_are_the_same_with_and_without_keras():
    assert tuple(text_pooling._POOL) == POOLINGS


# Folders as sentence-transformers writes them.


@pytest.fixture
def sentence_folder(folder, tmp_path):
    model = encoder(folder, dense=[{"units": 3}])
    model.new_parts.set_trained()
    model.save_pretrained(tmp_path / "sentence", format="huggingface")
    return tmp_path / "sentence"


DENSE, SETTINGS, MODULES = "2_Dense/config.json", "config_sentence_transformers.json", "modules.json"
THEIRS = "sentence_transformers.models"


def with_module(number, **values):
    """Function of modules -> the same with a changed one."""
    return lambda modules: [{**one, **values} if place == number else one for place, one in enumerate(modules)]


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        (DENSE, {"out_features": 4}, r"linear.weight must have the shape \[4, 8\]. Received: \[3, 8\]"),
        (DENSE, {"activation_function": "os.system"}, "the activation 'os.system' is unknown"),
        (DENSE, {"bias": "yes"}, "bias must be true or false"),
        (SETTINGS, {"prompts": {"query": 3}}, "the prompt 'query' must be a string"),
        (SETTINGS, {"truncate_dim": 2}, "truncate_dim is 2: vectors are cut there"),
        (SETTINGS, {"default_prompt_name": "a"}, "'a', which is none of its prompts"),
        ("1_Pooling/config.json", {"embedding_dimension": 9}, "embedding_dimension is 9, but the vectors have 8"),
        ("1_Pooling/config.json", {"pooling_mode": [3]}, "each pooling_mode must be a string"),
        (MODULES, {"change": with_module(1, path="link")}, "'link' is not inside the folder of the model"),
        (MODULES, {"change": lambda _: [{"type": "x.Normalize"}] * 101}, "at most 100 modules .* Received: 101"),
        (MODULES, {"change": with_module(2, type=f"{THEIRS}.CNN", path="2_CNN")}, "'mean, then CNN'.*SentenceEncoder"),
    ],
)
def test_damaged_files_of_sentence_transformers_are_refused(file, changes, message, sentence_folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (sentence_folder / "link").symlink_to(tmp_path / "elsewhere")
    change_json(sentence_folder / file, **changes)
    with pytest.raises(InputError, match=message):
        encoder(sentence_folder)


def test_other_tasks_and_poolings_can_use_a_folder_with_an_unknown_module(sentence_folder):
    change_json(sentence_folder / MODULES, with_module(2, type=f"{THEIRS}.CNN", path="2_CNN"))
    BertEncoder.from_pretrained(sentence_folder)
    assert encoder(sentence_folder, pooling=["max"]).pooling == ("max",)


def test_texts_that_are_lower_cased_before_the_tokenizer_are_refused_unless_it_does_so_too(sentence_folder):
    change_json(sentence_folder / "sentence_bert_config.json", do_lower_case=True)
    encoder(sentence_folder)
    change_json(sentence_folder / "tokenizer_config.json", do_lower_case=False)
    (sentence_folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="do_lower_case is not supported"):
        encoder(sentence_folder)


def test_a_dense_layer_may_add_its_inputs(folder, tmp_path):
    dense = [{"units": 8, "use_residual": True}, {"units": 3, "use_residual": True, "activation": "linear"}]
    model = encoder(folder, dense=dense, normalize=False)
    model.new_parts.set_trained()
    inputs = {feature: FEATURES[feature] for feature in NAMES}
    found = np.asarray(encoder(folder, normalize=False)(inputs))
    first, second = ([np.asarray(weight) for weight in layer.weights] for layer in model.sentence_head.dense_layers)
    found = np.tanh(found @ first[0] + first[1]) + found
    expected = found @ second[0] + second[1] + found @ second[2]
    np.testing.assert_allclose(np.asarray(model(inputs)), expected, atol=1e-6)
    model.save_pretrained(tmp_path / "saved", format="huggingface")
    np.testing.assert_allclose(np.asarray(encoder(tmp_path / "saved")(inputs)), expected, atol=1e-6)


def test_the_transformer_may_have_a_folder_of_its_own(sentence_folder):
    expected = encoder(sentence_folder).encode(TEXTS)
    (sentence_folder / "0_Transformer").mkdir()
    for file in ("config.json", "model.safetensors", "vocab.txt", "tokenizer.json", "sentence_bert_config.json"):
        (sentence_folder / file).rename(sentence_folder / "0_Transformer" / file)
    change_json(sentence_folder / MODULES, with_module(0, path="0_Transformer"))
    np.testing.assert_array_equal(encoder(sentence_folder).encode(TEXTS), expected)
    assert encoder(sentence_folder).max_seq_length == CONFIG.max_position_embeddings
    change_json(sentence_folder / MODULES, with_module(0, type=f"{THEIRS}.Router"))
    with pytest.raises(InputError, match="its first module is 'Router'. Only folders"):
        encoder(sentence_folder)


def test_a_prompt_without_text_is_a_prompt(sentence_folder, tmp_path):
    prompts = {"query": "", "passage": "the "}
    change_json(sentence_folder / "config_sentence_transformers.json", prompts=prompts, default_prompt_name="passage")
    model = encoder(sentence_folder)
    assert (model.prompts, model.default_prompt, model.prompt_for("query")) == (prompts, "passage", "query")
    np.testing.assert_array_equal(model.encode("fox", prompt="query"), model.encode("fox", prompt=""))
    assert (model.encode("fox") != model.encode("fox", prompt="query")).any()


def test_another_similarity_is_noted(sentence_folder, capsys):
    change_json(sentence_folder / "config_sentence_transformers.json", similarity_fn_name="euclidean")
    encoder(sentence_folder)
    assert "its similarity is 'euclidean', and searches here compare by cosines" in capsys.readouterr().out


def test_the_length_of_a_tokenizer_counts_where_no_other_is_named(sentence_folder):
    (sentence_folder / "sentence_bert_config.json").unlink()
    change_json(sentence_folder / "tokenizer_config.json", model_max_length=7)
    assert encoder(sentence_folder).max_seq_length == 7
    change_json(sentence_folder / "tokenizer_config.json", model_max_length=10**30)
    assert encoder(sentence_folder).max_seq_length == CONFIG.max_sequence_length


@pytest.mark.parametrize(("texts", "needed"), [(1, 2), (2, 3)])
def test_features_of_too_few_texts_for_a_loss_are_refused(folder, texts, needed):
    model = encoder(folder)
    model.compile(AdamW(1e-3), loss={2: InBatchNegatives(), 3: "triplet"}[needed])
    with pytest.raises(InputError, match=f"needs {needed} texts in each example or more. Received: {texts}"):
        model.loss_term(tf.zeros((4, texts, CONFIG.hidden_size)), None, None, None)
