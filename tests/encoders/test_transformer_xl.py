"""Transformer-XL computes what the official code and transformers computed, and segments with a memory are one text.

`family_golden/transformer_xl.npz` has weights under the names of transformers 4.57.6, inputs and outputs.
"""

import json

import keras
import numpy as np
import pytest
from numpy_bert import scatter_weights
from places import TESTS
from tiny_checkpoints import change_json, write_arrays

from keras_bert import BertConfig, InputError, SequenceClassifier, enable_lora
from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.conversion import convert_checkpoint
from keras_bert.checkpoints.model_weights import model_weights
from keras_bert.checkpoints.tensorflow_checkpoint import read_tensorflow_checkpoint, write_tensorflow_checkpoint
from keras_bert.checkpoints.weight_list import encoder_shapes
from keras_bert.encoders.transformer_xl import files as transformer_xl_files
from keras_bert.encoders.transformer_xl.adaptive_softmax import AdaptiveEmbeddings, AdaptiveSoftmax
from keras_bert.encoders.transformer_xl.model import TransformerXL
from keras_bert.tokenization.stream_vocabulary import StreamVocabulary

GOLDEN = np.load((TESTS / "family_golden") / "transformer_xl.npz")
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
SIZES |= {"vocab_size": 40, "mem_len": 6, "cutoffs": (10, 22), "div_val": 2}


def config(**changes):
    return BertConfig.from_size("transformer-xl-enwik8", **{**SIZES, **changes})


def small_model(**changes):
    model = TransformerXL(config(**changes))
    scatter_weights(model)
    return model


def ids_of(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 40, shape).astype("int32")


def write_golden(folder, name, **changes):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(json.loads(str(GOLDEN[f"{name}/config"])) | changes))
    start = f"{name}/w/"
    write_arrays(folder, {key.removeprefix(start): GOLDEN[key] for key in GOLDEN.files if key.startswith(start)})
    return folder


@pytest.mark.parametrize("name", ["narrowing", "one_table"])
def test_a_folder_of_transformers_computes_the_same_here(tmp_path, name):
    """`narrowing` has same_length, clamp_len and untied projections; `one_table` shares the biases of all layers."""
    model = TransformerXL.from_pretrained(write_golden(tmp_path / "theirs", name))
    inputs = {"input_ids": GOLDEN[f"{name}/ids"], "memory": GOLDEN[f"{name}/memory"]}
    outputs = model(inputs)
    np.testing.assert_allclose(outputs["log_probabilities"], GOLDEN[f"{name}/log_probabilities"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(outputs["memory"], GOLDEN[f"{name}/new_memory"], rtol=0, atol=1e-5)
    targets = np.concatenate([inputs["input_ids"][:, 1:], [[0], [0]]], axis=1)
    states = model(inputs | {"target_ids": targets})["sequence_output"]
    losses = model.softmax(keras.ops.reshape(states, (-1, 16)), embeddings=model.embeddings, targets=targets.ravel())
    # transformers returns them cluster by cluster.
    losses = np.sort(np.reshape(losses, (2, 5))[:, :-1].ravel())
    np.testing.assert_allclose(losses, np.sort(GOLDEN[f"{name}/losses"].ravel()), rtol=0, atol=1e-5)


# Names of transformers -> names of the official code. Matrices are transposed there.
MATRICES = {
    "dec_attn.qkv_net.weight": "rel_attn/qkv/kernel",
    "dec_attn.r_net.weight": "rel_attn/r/kernel",
    "dec_attn.o_net.weight": "rel_attn/o/kernel",
    "pos_ff.CoreNet.0.weight": "ff/layer_1/kernel",
    "pos_ff.CoreNet.3.weight": "ff/layer_2/kernel",
}
VECTORS = {
    "dec_attn.layer_norm.weight": "rel_attn/LayerNorm/gamma",
    "dec_attn.layer_norm.bias": "rel_attn/LayerNorm/beta",
    "pos_ff.CoreNet.0.bias": "ff/layer_1/bias",
    "pos_ff.CoreNet.3.bias": "ff/layer_2/bias",
    "pos_ff.layer_norm.weight": "ff/LayerNorm/gamma",
    "pos_ff.layer_norm.bias": "ff/LayerNorm/beta",
}


def official_variables(name):
    """The recorded weights under the names and in the shapes of kimiyoung/transformer-xl `tf/model.py`."""
    start = f"{name}/w/"
    weights = {key.removeprefix(start): GOLDEN[key] for key in GOLDEN.files if key.startswith(start)}
    found = {}
    for number in range(2):
        theirs, official = f"transformer.layers.{number}.", f"transformer/layer_{number}/"
        found |= {official + other: weights[theirs + one].T for one, other in MATRICES.items()}
        found |= {official + other: weights[theirs + one] for one, other in VECTORS.items()}
    for bias in ("r_w_bias", "r_r_bias"):
        in_layers = [weights.get(f"transformer.layers.{number}.dec_attn.{bias}") for number in range(2)]
        found[f"transformer/{bias}"] = weights.get(f"transformer.{bias}", in_layers)
    embed, softmax = "transformer/adaptive_embed", "transformer/adaptive_softmax"
    found[f"{softmax}/cutoff_0/cluster_W"] = weights["crit.cluster_weight"]
    found[f"{softmax}/cutoff_0/cluster_b"] = weights["crit.cluster_bias"]
    if name == "one_table":
        found[f"{embed}/lookup_table"] = weights["transformer.word_emb.emb_layers.0.weight"]
        biases = np.split(weights["crit.out_layers.0.bias"], [10, 22])
        return found | {f"{softmax}/cutoff_{number}/b": bias for number, bias in enumerate(biases)}
    for number in range(3):
        found[f"{embed}/cutoff_{number}/lookup_table"] = weights[f"transformer.word_emb.emb_layers.{number}.weight"]
        found[f"{embed}/cutoff_{number}/proj_W"] = weights[f"transformer.word_emb.emb_projs.{number}"].T
        found[f"{softmax}/cutoff_{number}/b"] = weights[f"crit.out_layers.{number}.bias"]
        found[f"{softmax}/cutoff_{number}/proj"] = weights[f"crit.out_projs.{number}"].T
    return found


@pytest.mark.parametrize("name", ["narrowing", "one_table"])
def test_variables_of_the_official_code_compute_the_same_here(tmp_path, name):
    variables = {key: StoredTensor.of(np.ascontiguousarray(one)) for key, one in official_variables(name).items()}
    write_tensorflow_checkpoint(str(tmp_path / "model.ckpt"), variables)
    config = json.loads(str(GOLDEN[f"{name}/config"])) | {"proj_same_dim": name == "narrowing"}
    del config["model_type"]  # the official code has flags alone
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = TransformerXL.from_pretrained(tmp_path)
    outputs = model({"input_ids": GOLDEN[f"{name}/ids"], "memory": GOLDEN[f"{name}/memory"]})
    np.testing.assert_allclose(outputs["log_probabilities"], GOLDEN[f"{name}/log_probabilities"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(outputs["memory"], GOLDEN[f"{name}/new_memory"], rtol=0, atol=1e-5)
    convert_checkpoint(tmp_path, tmp_path / "back", "google")
    back = read_tensorflow_checkpoint(str(tmp_path / "back" / "model.ckpt"))
    assert set(variables) <= set(back)
    for key in variables:
        found = back[key].read()
        np.testing.assert_array_equal(np.broadcast_to(variables[key].read(), found.shape), found, err_msg=key)


def test_every_format_keeps_every_number(tmp_path):
    write_golden(tmp_path / "theirs", "narrowing")
    expected = TransformerXL.from_pretrained(tmp_path / "theirs")
    convert_checkpoint(tmp_path / "theirs", tmp_path / "ours")
    for number, format in enumerate(("keras_bert", "huggingface", "google")):
        convert_checkpoint(tmp_path / "ours", tmp_path / f"{number}", format)
        model = TransformerXL.from_pretrained(tmp_path / f"{number}")
        assert model.config.replace(extra={}) == expected.config.replace(extra={}), format
        for weight, other in zip(expected.weights, model.weights, strict=True):
            np.testing.assert_array_equal(weight, other, err_msg=f"{format} {weight.path}")


@pytest.mark.parametrize(
    ("changes", "tied"),
    [
        ({}, [False, True, True]),
        ({"proj_share_all_but_first": False}, [False, False, False]),
        ({"proj_share_all_but_first": False, "tie_projs": [False, True, True]}, [False, True, True]),
        ({"tie_projs": [True, False, True]}, [True, False, True]),
        ({"tie_projs": [False, True, False, True]}, [False, True, False]),  # transformers' default has one too many
        ({"tie_projs": True}, [True, True, True]),
        ({"share_proj": False}, [False, False, False]),
        ({"share_proj": True}, [True, True, True]),
    ],
)
def test_a_config_says_which_clusters_share_a_projection(tmp_path, changes, tied):
    small_model(proj_same_dim=True).save_pretrained(tmp_path / "theirs", format="huggingface")
    change_json(tmp_path / "theirs/config.json", without=["tie_projs"], **changes)
    if "share_proj" in changes:
        read = transformer_xl_files.read_official(str(tmp_path / "theirs/model.ckpt"), {})
    else:
        read = transformer_xl_files.read_hugging_face(str(tmp_path / "theirs"))
    assert [*read.config.tie_projs] == tied


@pytest.mark.parametrize(
    ("changes", "count"),
    [({"size": "transformer-xl-enwik8"}, 41_066_700), ({"size": "transformer-xl-wt103-base"}, 151_119_838)],
)
def test_published_sizes_have_the_published_number_of_weights(changes, count):
    shapes = encoder_shapes(BertConfig.from_size(**changes))
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == count
    model = small_model()
    found = {name: tuple(weight.shape) for name, weight in model_weights(model).items()}
    assert found == encoder_shapes(model.config)


def test_adaptive_probabilities_sum_to_1_and_losses_are_theirs():
    shape = {"sizes": (5, 4, 3), "widths": (6, 3, 1), "hidden_size": 8}
    embeddings = AdaptiveEmbeddings(is_projected=[True, True, True], **shape)
    softmax = AdaptiveSoftmax(is_projected=[True, False, False], **shape)
    draw = np.random.default_rng(0)
    for layer in (embeddings, softmax):
        layer.build()
        for weight in layer.weights:
            weight.assign(draw.normal(size=weight.shape))
    vectors = draw.normal(size=(12, 8)).astype("float32")
    scores = np.asarray(softmax(vectors, embeddings=embeddings))
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1, atol=1e-6)
    for targets in (np.arange(12), np.full(12, 10), np.zeros(12)):  # clusters without a target
        losses = softmax(vectors, embeddings=embeddings, targets=targets.astype("int32"))
        np.testing.assert_allclose(losses, -scores[np.arange(12), targets.astype(int)], atol=1e-5)


@pytest.mark.parametrize("clamp_len", [-1, 3])
def test_segments_with_memory_are_one_long_segment(clamp_len):
    model, ids = small_model(clamp_len=clamp_len, mem_len=12), ids_of((2, 12))
    whole = np.asarray(model({"input_ids": ids})["log_probabilities"])
    memory, found = {}, []
    for start in range(0, 12, 4):
        outputs = model({"input_ids": ids[:, start : start + 4], **memory})
        memory = {name: outputs[name] for name in ("memory", "memory_mask")}
        found.append(outputs["log_probabilities"])
    np.testing.assert_allclose(np.concatenate(found, axis=1), whole, rtol=0, atol=1e-6)


def assert_distances_from_3_count_as_one(outputs_with):
    """Asserts that a token cannot tell the order of its memory (1, 6, 16) at distances 3 and more."""
    memory = np.random.default_rng(1).normal(size=(1, 6, 16)).astype("float32")  # at the distances 6, 5, ..., 1

    def swapped(first, second):
        order = np.arange(6)
        order[[6 - first, 6 - second]] = 6 - second, 6 - first
        return np.asarray(outputs_with(memory[:, order]))

    before = swapped(1, 1)
    np.testing.assert_allclose(swapped(3, 4), before, rtol=0, atol=1e-6)
    np.testing.assert_allclose(swapped(4, 6), before, rtol=0, atol=1e-6)
    assert np.abs(swapped(2, 3) - before).max() > 1e-3


def test_memory_at_distances_beyond_clamp_len_has_one_position():
    model, ids = small_model(num_hidden_layers=1, clamp_len=3), ids_of((1, 1))
    assert_distances_from_3_count_as_one(
        lambda memory: model({"input_ids": ids, "memory": memory[None]})["log_probabilities"]
    )


def test_same_length_gives_every_token_the_same_past():
    """One layer sees a token and the `mem_len - 1` before it: a change of an older one changes nothing."""
    model, ids = small_model(num_hidden_layers=1, mem_len=3, same_length=True), ids_of((1, 9))
    before = np.asarray(model({"input_ids": ids})["log_probabilities"])[0]
    changed = ids.copy()
    changed[0, 2] = (changed[0, 2] + 1) % 40
    moved = np.abs(np.asarray(model({"input_ids": changed})["log_probabilities"])[0] - before).max(axis=1)
    assert (moved[[0, 1, 5, 6, 7, 8]] == 0).all()
    assert (moved[[2, 3, 4]] > 1e-4).all()


def test_ignored_memory_and_later_tokens_change_nothing():
    model, ids = small_model(), ids_of((2, 4))
    memory = np.random.default_rng(1).normal(size=(2, 2, 6, 16)).astype("float32")
    alone = np.asarray(model({"input_ids": ids})["log_probabilities"])
    masked = model({"input_ids": ids, "memory": memory, "memory_mask": np.zeros((2, 6), "int32")})
    np.testing.assert_allclose(masked["log_probabilities"], alone, rtol=0, atol=1e-6)
    seen = model({"input_ids": ids, "memory": memory})
    assert np.abs(np.asarray(seen["log_probabilities"]) - alone).max() > 1e-3
    shorter = np.asarray(model({"input_ids": ids[:, :2]})["log_probabilities"])
    np.testing.assert_allclose(shorter, alone[:, :2], rtol=0, atol=1e-6)


def test_memory_gets_no_gradient():
    import tensorflow as tf

    model, ids = small_model(), ids_of((1, 4))
    memory = tf.Variable(np.random.default_rng(0).normal(size=(1, 2, 6, 16)).astype("float32"))
    with tf.GradientTape() as tape:
        x = {"input_ids": ids, "target_ids": ids, "memory": memory}
        outputs = model(x)
        loss = model.loss_terms(x, None, outputs, None)[0].value + 0 * tf.reduce_sum(outputs["memory"])
    gradients = tape.gradient(loss, [memory, *[weight.value for weight in model.trainable_variables]])
    assert gradients[0] is None
    assert all(gradient is not None for gradient in gradients[1:])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cutoffs": [22, 10]}, "cutoffs must be whole numbers that rise, above 0 and below vocab_size=40. Received"),
        ({"cutoffs": [10, 10]}, "cutoffs must be whole numbers that rise"),
        ({"cutoffs": [10, 40]}, "cutoffs must be whole numbers that rise"),
        ({"cutoffs": ["10"]}, "cutoffs must be a list of whole numbers. Received: ..10.."),
        ({"cutoffs": 10}, "cutoffs must be a list of whole numbers. Received: 10"),
        ({"cutoffs": tuple(range(1, 20)), "div_val": 1}, "at most 8 cutoffs. Received: 19"),
        ({"div_val": 5}, "embedding_size=16 divided by div_val=5 for each of 2 cutoffs leaves nothing"),
        ({"tie_projs": [True]}, "true or false for each of the 3 clusters"),
        ({"div_val": 1, "embedding_size": 8}, "With div_val=1, embedding_size must be hidden_size=16"),
        ({"mem_len": 0, "same_length": True}, "mem_len must be above 0"),
        ({"clamp_len": 0}, "clamp_len must be positive, or -1"),
        ({"tie_word_embeddings": False}, "Transformer-XL needs tie_word_embeddings=True. Received: False"),
    ],
)
def test_a_config_that_is_not_valid_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        config(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 2**31 - 1}, "crit.out_layers.0.bias has the shape .40., but its config requires .2147483647"),
        ({"n_layer": 3}, "is incomplete: "),
        ({"n_layer": 1}, "more weights than a model with num_hidden_layers=1"),
        ({"d_model": 2**30, "d_embed": 2**30, "d_head": 2**29}, "but its config requires"),
        ({"cutoffs": [22, 10]}, "config.json: TransformerXLConfig: cutoffs must be whole numbers that rise"),
        ({"pre_lnorm": True}, "pre_lnorm is True, .* Only False is supported"),
        ({"d_head": 4}, "d_head=4 and n_head=2 do not make d_model=16"),
    ],
)
def test_files_that_do_not_fit_their_config_are_refused(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        TransformerXL.from_pretrained(write_golden(tmp_path / "theirs", "one_table", **changes))


def test_hostile_shapes_and_missing_configs_of_official_files_are_refused(tmp_path):
    convert_checkpoint(write_golden(tmp_path / "theirs", "narrowing"), tmp_path / "official", "google")
    variables = read_tensorflow_checkpoint(str(tmp_path / "official" / "model.ckpt"))
    wrong = variables | {"transformer/r_w_bias": StoredTensor.of(np.zeros((3, 2, 8), "float32"))}
    write_tensorflow_checkpoint(str(tmp_path / "official" / "model.ckpt"), wrong)
    with pytest.raises(InputError, match="transformer/r_w_bias has the shape .3, 2, 8., but its config requires .2, 2"):
        TransformerXL.from_pretrained(tmp_path / "official")
    (tmp_path / "official" / "config.json").unlink()
    with pytest.raises(InputError, match="There is no config file .*Write one with the flags"):
        TransformerXL.from_pretrained(tmp_path / "official")


def test_inputs_that_do_not_fit_are_refused(tmp_path):
    model = small_model()
    with pytest.raises(InputError, match=r"memory must be an array .*\[1, 2, None, 16\]. Received the shape \[1, 3"):
        model({"input_ids": ids_of((1, 4)), "memory": np.zeros((1, 3, 6, 16), "float32")})
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match="reads a text from left to right, so it is no encoder for tasks"):
        SequenceClassifier.from_pretrained(tmp_path / "model", labels=["a", "b"])


@pytest.mark.parametrize(
    "changes",
    [
        {"proj_same_dim": True},
        {"embedding_size": 8},
        {"embedding_size": 8, "tie_projs": (False, True, False)},
        {"div_val": 1, "cutoffs": ()},
    ],
)
def test_a_model_folder_of_every_form_comes_back(changes, tmp_path):
    model, inputs = small_model(**changes), {"input_ids": ids_of((1, 4))}
    model.save_pretrained(tmp_path / "model")
    loaded = TransformerXL.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(loaded(inputs)["log_probabilities"], model(inputs)["log_probabilities"])


def test_low_rank_matrices_are_trained_and_merged_and_the_card_says_how_to_use_the_model(tmp_path):
    model, ids = small_model(), ids_of((1, 4))
    enable_lora(model, 2)
    changed = [weight for weight in model.trainable_variables if "lora" in weight.path]
    assert len(changed) == len(model.trainable_variables) == 2 * 2 * 5  # layers, matrices, kernels
    for weight in changed:
        weight.assign(np.full(weight.shape, 0.1))
    expected = model({"input_ids": ids})["log_probabilities"]
    model.save_pretrained(tmp_path / "model")
    loaded = TransformerXL.from_pretrained(tmp_path / "model")
    np.testing.assert_allclose(loaded({"input_ids": ids})["log_probabilities"], expected, rtol=0, atol=1e-5)
    card = (tmp_path / "model" / "README.md").read_text("utf-8")
    assert 'keras_bert.TransformerXL.from_pretrained("path/of/this/folder")' in card
    assert "import numpy as np" in card


def test_vocabularies_of_words_and_characters(tmp_path):
    lines = ["the cat\n", "the dog  ran\n"]
    words = StreamVocabulary.of_lines(lines, "words")
    assert words.tokens[:3] == ("<unk>", "<eos>", "the")
    assert words.decode(words.encode("the bird ran\n")) == "the <unk> ran \n"
    assert StreamVocabulary.of_lines(lines, "words", most_tokens=3).tokens == ("<unk>", "<eos>", "the")
    characters = StreamVocabulary.of_lines(lines, "characters", least_count=2)
    text = "the cat\n"
    assert characters.decode(characters.encode(text)) == text.replace("c", "<unk>")
    model = TransformerXL(config(vocab_size=len(words), cutoffs=(), div_val=1))
    model.vocabulary = words
    for format in ("keras_bert", "google", "huggingface"):
        model.save_pretrained(tmp_path / format, format=format)
        assert TransformerXL.from_pretrained(tmp_path / format).vocabulary.tokens == words.tokens
    (tmp_path / "google" / "stream_vocab.json").unlink()
    (tmp_path / "google" / "vocab.txt").write_text("".join(f"{token} 7\n" for token in words.tokens))
    assert TransformerXL.from_pretrained(tmp_path / "google").vocabulary.encode("cat\n") == words.encode("cat\n")
    for tokens, kind, message in [
        (["a"], "words", "lacks <eos> and <unk>"),
        (["<unk>", "ab"], "characters", "one character in each token"),
        (["<unk>", "a", "a"], "characters", "has a token twice"),
        (["<unk>"], "bytes", "one of the kinds words, characters. Received: 'bytes'"),
    ]:
        with pytest.raises(InputError, match=message):
            StreamVocabulary(tokens, kind)
