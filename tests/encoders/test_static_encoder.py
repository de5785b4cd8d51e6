"""Static models: a vector per token, distilled, trained, stored in both formats, searched and served."""

import json
import warnings

import numpy as np
import pytest
import tensorflow as tf
from slow_parameters import slow_except
from tiny_checkpoints import CONFIG, VOCABULARY, change_json, random_checkpoint, write_arrays

from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.checkpoints.safetensors_file import read_safetensors
from keras_bert.config import BertConfig
from keras_bert.encoders.static.encoder import StaticEncoder
from keras_bert.models.trainable_parts import enable_lora
from keras_bert.optimization import AdamW
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.embedding.losses import Matryoshka
from keras_bert.tasks.embedding.model import SentenceEncoder
from keras_bert.tasks.embedding.static_distillation import distil_static, sif_weights
from keras_bert.tokenization.wordpiece import WordPieceTokenizer
from run_scripts import convert_checkpoint, run_embeddings

pytestmark = pytest.mark.usefixtures("without_graphs")

TEXTS = ["the quick fox", "the brown fox", "quick", "brown the fox quickest", "", "zebra fox"]
SIZE = 4


def static_model(**arguments):
    model = SentenceEncoder(BertConfig.static(len(VOCABULARY), SIZE), **arguments)
    model.vocabulary = VOCABULARY
    return model


def expected_vectors(table, texts, normalize=True):
    """The mean of the token vectors, text by text."""
    tokenizer = WordPieceTokenizer(VOCABULARY, True)
    means = [np.mean([table[token] for token in tokenizer.encode(text)] or [0 * table[0]], axis=0) for text in texts]
    return np.stack([mean / max(np.linalg.norm(mean), 1e-12) if normalize else mean for mean in means])


def table_of(model):
    return np.asarray(model.encoder.embeddings.token_embeddings)


@pytest.fixture
def bert(tmp_path):
    config = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    write_checkpoint(random_checkpoint(config=config), tmp_path / "bert", "huggingface")
    return tmp_path / "bert"


@pytest.mark.parametrize("normalize", [True, False])
def test_a_vector_is_the_mean_of_the_tokens_without_cls_and_sep(normalize):
    model = static_model(normalize=normalize)
    expected = expected_vectors(table_of(model), TEXTS, normalize)
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-6)
    np.testing.assert_allclose(model.predict(TEXTS[:4], verbose=0), expected[:4], atol=1e-6)  # from rows of tokens
    assert model.encode([]).shape == (0, SIZE)
    rows = {"input_ids": np.array([[2, 3]]), "input_mask": np.array([[1, 1]])}
    assert not np.asarray(model(rows)).any()  # no token


def test_long_texts_are_cut_as_elsewhere():
    model = static_model(max_seq_length=5)
    np.testing.assert_allclose(model.encode(["the quick fox brown brown"]), model.encode(["the quick fox"]), atol=1e-6)


def test_the_length_of_the_tokenizer_does_not_cut_the_texts_of_a_folder(tmp_path):
    """sentence-transformers reads no length for a StaticEmbedding."""
    model = static_model()
    model.save_pretrained(tmp_path / "static", format="huggingface")
    change_json(tmp_path / "static/tokenizer_config.json", model_max_length=4)
    (tmp_path / "static/sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 4}))
    read = SentenceEncoder.from_pretrained(tmp_path / "static")
    text = "the quick fox brown brown"
    np.testing.assert_array_equal(read.encode([text]), model.encode([text]))


def test_many_texts_come_back_in_their_order_with_progress():
    model, counts = static_model(), []
    texts = [" ".join(["fox"] * (number % 3) + ["the"]) for number in range(10_000)]
    vectors = model.encode(iter(texts), on_progress=counts.append)
    np.testing.assert_allclose(vectors, model.encode(texts[:3])[np.arange(10_000) % 3], atol=1e-6)
    assert (sum(counts), len(counts)) == (10_000, 3)


def test_selected_tokens_have_the_same_vectors():
    encoder = static_model().encoder
    batch = {"input_ids": np.array([[2, 5, 6, 3], [2, 7, 3, 0]]), "input_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]])}
    every = np.asarray(encoder(batch)["sequence_output"])
    columns, flat = np.array([[1, 2], [0, 1]]), np.array([5, 0])
    found = encoder.vectors_at(batch, columns)["sequence_output"]
    np.testing.assert_array_equal(found, np.take_along_axis(every, columns[:, :, None], axis=1))
    np.testing.assert_array_equal(encoder.vectors_at_flat(batch, flat), every.reshape(-1, SIZE)[flat])


def test_distillation_is_a_projection_with_weights(bert):
    teacher = SentenceEncoder.from_pretrained(bert)
    static = distil_static(teacher, size=3, texts=["the fox", "the the quick", "the"])
    counts = np.ones(len(VOCABULARY))
    counts[[5, 8, 6]] += [4, 1, 1]
    share = counts / counts.sum()
    # [CLS] token [SEP], one row for each token.
    rows = np.array([[2, token, 3] for token in range(len(VOCABULARY))])
    ones = np.ones_like(rows)
    vectors = np.asarray(teacher({"input_ids": rows, "input_mask": ones, "segment_ids": 0 * rows}))
    centred = vectors - vectors.mean(axis=0)
    directions = np.linalg.svd(centred.astype(np.float64))[2][:3]
    expected = (centred @ directions.T) * (3e-4 / (3e-4 + share))[:, None]
    # The sign of a principal component is arbitrary.
    np.testing.assert_allclose(np.abs(table_of(static)), np.abs(expected), atol=1e-6)
    np.testing.assert_allclose(sif_weights(counts), 3e-4 / (3e-4 + share))
    np.testing.assert_allclose(static.encode(TEXTS), expected_vectors(table_of(static), TEXTS), atol=1e-6)


def test_without_texts_the_order_of_the_vocabulary_sets_the_weights(bert):
    teacher = SentenceEncoder.from_pretrained(bert)
    one, other = table_of(distil_static(teacher, 3)), table_of(distil_static(teacher, 3, ["the"]))
    ratio = sif_weights(1 / np.arange(1, len(VOCABULARY) + 1)) / sif_weights(1.0 + (np.arange(len(VOCABULARY)) == 5))
    np.testing.assert_allclose(one, other * ratio[:, None], rtol=1e-4)


@pytest.mark.parametrize("format", slow_except(["keras_bert"], ["keras_bert", "huggingface"]))
def test_a_saved_model_gives_the_same_vectors(format, tmp_path):
    model = static_model(dense=[{"units": 3}], prompts={"query": "the "}, normalize=False)
    model.save_pretrained(tmp_path / "saved", format=format)
    for loaded in (from_pretrained(None, tmp_path / "saved"), SentenceEncoder.from_pretrained(tmp_path / "saved")):
        assert isinstance(loaded.encoder, StaticEncoder)
        np.testing.assert_allclose(loaded.encode(TEXTS, prompt="query"), model.encode(TEXTS, prompt="query"), atol=1e-6)
    if format == "huggingface":
        modules = json.loads((tmp_path / "saved" / "modules.json").read_text())
        assert [module["type"].split(".")[-1] for module in modules] == ["StaticEmbedding", "Dense"]
        assert list(read_safetensors(tmp_path / "saved" / "model.safetensors")) == ["embedding.weight"]


def test_training_brings_pairs_together_and_goes_with_any_loss():
    import keras

    keras.utils.set_random_seed(0)
    anchors, positives = ["quick fox", "brown"] * 8, ["the quickest", "the the"] * 8
    model = static_model()
    before = model.evaluate((anchors, positives, positives[::-1]), verbose=0)["mrr@10"]
    model.compile(AdamW(0.05))
    model.fit((anchors, positives), epochs=20, batch_size=8, verbose=0)
    assert model.evaluate((anchors, positives, positives[::-1]), verbose=0)["mrr@10"] == 1.0 >= before
    model.fit((anchors, positives), epochs=1, loss=Matryoshka(model.embedding_loss, [SIZE, 2]), verbose=0)
    model.fit((anchors, positives), [0.5] * 16, epochs=1, loss="cosine", verbose=0)


def test_an_export_looks_tokens_up(tmp_path):
    tf.config.run_functions_eagerly(False)  # an export has graphs
    model = static_model(prompts={"query": "quick "})
    folder = model.export_for_serving(tmp_path / "export")
    served = tf.saved_model.load(folder)
    texts = tf.constant(TEXTS)
    for name, prompt in (("serving_default", ""), ("embed", ""), ("embed_query", "query")):
        found = served.signatures[name](text=texts)["embedding"]
        np.testing.assert_allclose(found, model.encode(TEXTS, prompt=prompt), atol=1e-6)
    rows = tf.constant([[2, 5, 6, 8, 3, 0]])  # [CLS] the quick fox [SEP]
    found = served.signatures["tokens"](input_ids=rows, lengths=tf.constant([5]))["embedding"]
    np.testing.assert_allclose(found, model.encode(TEXTS[:1]), atol=1e-6)
    graph = served.signatures["embed"].graph.as_graph_def()
    operations = {node.op for function in graph.library.function for node in function.node_def}
    assert "SparseSegmentMeanWithNumSegments" in operations


def test_commands_distil_train_and_export(bert, tmp_path, done_here):
    (tmp_path / "texts.txt").write_text("the quick fox\nthe brown fox\n")
    flags = [f"--input={bert}", f"--output={tmp_path / 'static'}", "--static_size=4"]
    printed = done_here(convert_checkpoint, *flags, f"--texts_file={tmp_path / 'texts.txt'}")
    assert "10 vectors of 4 numbers" in printed.out
    lines = [json.dumps({"a": "the fox", "b": "quick"}), json.dumps({"a": "brown", "b": "the the"})]
    (tmp_path / "train.jsonl").write_text("\n".join(lines) + "\n")
    files = [f"--{part}_file={tmp_path / 'train.jsonl'}" for part in ("train", "dev")]
    flags = [f"--init_checkpoint={tmp_path / 'static'}", f"--output_dir={tmp_path / 'run'}", *files]
    flags += ["--text_columns=a,b", "--do_train", "--do_eval", "--learning_rate=0.01"]
    done_here(run_embeddings, *flags)
    trained = SentenceEncoder.from_pretrained(tmp_path / "run" / "model")
    assert trained.is_static
    assert "eval_ndcg@10" in (tmp_path / "run" / "eval_results.txt").read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--texts_file=a.txt"], "--texts_file has no effect without --static_size"),
        (["--static_size=4", "--verify"], "--verify has no effect with --static_size"),
        (["--static_size=9"], "size must be a whole number of at least 1 and at most 8. Received: 9"),
        (["--static_size=4", "--texts_file=nowhere.txt"], "There is no file nowhere.txt"),
        (["--static_size=4", "--format=google"], "The google format cannot hold a static model"),
    ],
)
def test_bad_flags_are_refused(flags, message, bert, tmp_path, run_here):
    code, printed = run_here(convert_checkpoint, f"--input={bert}", f"--output={tmp_path / 'static'}", *flags)
    assert code != 0
    assert message in printed.err


def test_what_a_static_model_cannot_do_is_refused(bert, tmp_path):
    model = static_model()
    with pytest.raises(InputError, match="The vector of a text in a static model is the mean of its tokens"):
        static_model(pooling="max")
    with pytest.raises(InputError, match="Leave out pooling and doc_stride"):
        static_model(doc_stride=4)
    with pytest.raises(InputError, match="A static model has no layers for LoRA"):
        enable_lora(model, 2)
    with pytest.raises(InputError, match="A static model has no layers. Load it with SentenceEncoder"):
        SequenceClassifier(model.config, labels=["a", "b"])
    with pytest.raises(InputError, match="StaticEncoder does not compute models of the family 'bert'"):
        StaticEncoder(CONFIG)
    with pytest.raises(InputError, match="StaticEncoder has no output_attentions: it computes no attention. Set"):
        StaticEncoder(BertConfig.static(len(VOCABULARY), SIZE), output_attentions=True)
    with pytest.raises(InputError, match="distilled from a SentenceEncoder that has layers and a vocabulary"):
        distil_static(model)
    with pytest.raises(InputError, match="texts must have at least one token"):
        distil_static(SentenceEncoder.from_pretrained(bert), 2, [" "])
    with pytest.raises(InputError, match="Text 2 must be a string. Received: 5"):
        model.encode(["a", 5])
    model.save_pretrained(tmp_path / "saved")
    with pytest.raises(InputError, match="has no table of positions"):
        SentenceEncoder.from_pretrained(tmp_path / "saved", max_position_embeddings=8)


def test_damaged_folders_are_refused(tmp_path):
    model = static_model()

    def refused(message, change):
        folder = tmp_path / f"folder{len(list(tmp_path.iterdir()))}"
        model.save_pretrained(folder, format="huggingface")
        change(folder)
        with pytest.raises(InputError, match=message):
            SentenceEncoder.from_pretrained(folder)

    def set_modules(folder, *modules):
        entries = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in modules]
        (folder / "modules.json").write_text(json.dumps(entries))

    table = np.zeros((10, 4), "float32")
    refused("must have one table", lambda folder: write_arrays(folder, {"weight": table}))
    refused("must have one table", lambda folder: write_arrays(folder, {"embeddings": table, "mapping": table}))
    refused("the vocabulary has 10 tokens", lambda folder: write_arrays(folder, {"embedding.weight": table[:9]}))
    refused("needs the file .*tokenizer.json", lambda folder: (folder / "tokenizer.json").unlink())
    refused("only Dense and Normalize", lambda folder: set_modules(folder, ("StaticEmbedding", ""), ("LSTM", "1")))
    refused("is not inside the folder", lambda folder: set_modules(folder, ("StaticEmbedding", "../other")))


def test_a_static_encoder_alone_is_written_in_our_format_only(tmp_path):
    model = from_pretrained(StaticEncoder, saved(static_model(), tmp_path / "saved"))
    with pytest.raises(InputError, match="holds a static encoder as part of a model.*Use format='keras_bert'"):
        model.save_pretrained(tmp_path / "written", format="huggingface")
    assert not (tmp_path / "written").exists()


def saved(model, folder):
    model.save_pretrained(folder)
    return folder


def test_a_folder_of_model2vec_is_read(tmp_path):
    model = static_model()
    model.save_pretrained(tmp_path / "saved", format="huggingface")
    stored = read_safetensors(tmp_path / "saved" / "model.safetensors")["embedding.weight"]
    write_arrays(tmp_path / "saved", {"embeddings": stored.read().copy()})
    (tmp_path / "saved" / "config.json").write_text('{"model_type": "model2vec", "normalize": true}')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = SentenceEncoder.from_pretrained(tmp_path / "saved")
    np.testing.assert_allclose(loaded.encode(TEXTS), model.encode(TEXTS), atol=1e-6)
