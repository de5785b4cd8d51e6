"""A process of `before_after.py`: answers requests on standard input with the checkout that is first on its path."""

import json
import os
import resource
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # output of libraries must not be mixed with the answers

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import keras_bert  # noqa: E402

VOCAB_SIZE, WORDS = 8000, ["the", "film", "was", "good", "bad", "very", "so"]
MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
MINI = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}


def config(size):
    return keras_bert.BertConfig(VOCAB_SIZE, max_position_embeddings=512, **size)


def features(rows, length, lengths=None):
    ids = np.random.default_rng(0).integers(5, VOCAB_SIZE, (rows, length)).astype("int32")
    mask = np.arange(length) < np.full(rows, length)[:, None] if lengths is None else np.arange(length) < lengths
    mask = mask.astype("int32")
    return {"input_ids": ids * mask, "input_mask": mask, "segment_ids": 0 * ids}


def forward(rows, length, unpadded=False):
    """An encoder of MiniLM's size; with `unpadded`, half of the texts are short."""
    encoder = keras_bert.BertEncoder(config(MINILM))
    encoder.unpadded = unpadded
    draw, lengths = np.random.default_rng(3), None
    if unpadded:
        short, long = draw.integers(5, 50, rows // 2), draw.integers(50, length + 1, rows - rows // 2)
        lengths = np.concatenate([short, long])[:, None]
    batch = {name: tf.constant(values) for name, values in features(rows, length, lengths).items()}
    specification = {name: tf.TensorSpec([None, None], tf.int32) for name in batch}
    encode = tf.function(lambda x: encoder(x)["sequence_output"], input_signature=[specification], autograph=False)
    return lambda: encode(batch).numpy()[0, 0, 0]


def training(kind, rows, length):
    draw, batch = np.random.default_rng(1), features(rows, length)
    labels = ()
    if kind == "pretraining":
        model = keras_bert.BertPretrainer(config(MINI))
        batch |= {
            "masked_lm_positions": np.sort(draw.integers(1, length, (rows, 20))).astype("int32"),
            "masked_lm_ids": draw.integers(5, VOCAB_SIZE, (rows, 20)).astype("int32"),
            "masked_lm_weights": np.ones((rows, 20), "float32"),
            "next_sentence_labels": draw.integers(0, 2, (rows, 1)).astype("int32"),
        }
    elif kind == "classification":
        model = keras_bert.SequenceClassifier(config(MINI), labels=["a", "b"])
        labels = (draw.integers(0, 2, rows).astype("int32"),)
    else:
        model = keras_bert.TokenClassifier(config(MINI), labels=["O", "B-X"])
        is_first = draw.random((rows, length)) < 0.6
        batch["label_ids"] = np.where(is_first, draw.integers(0, 2, (rows, length)), -1).astype("int32")
    model.compile(keras_bert.AdamW(1e-4), jit_compile=False)
    batches = iter(tf.data.Dataset.from_tensors((batch, *labels) if labels else batch).repeat())
    model.make_train_function()
    return lambda: float(model.train_function(batches)["loss"])


def export(folder):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    model = keras_bert.SequenceClassifier(config(MINILM), labels=["a", "b"])
    model.vocabulary = keras_bert.Vocabulary([*tokens, *(f"w{n}" for n in range(VOCAB_SIZE - len(tokens)))])
    return model.export_for_serving(folder)


def served(folder, rows, num_words):
    signature = tf.saved_model.load(folder).signatures["serving_default"]
    words = np.random.default_rng(0).choice(WORDS, (rows, num_words))
    texts = tf.constant([" ".join(row) for row in words])
    return lambda: signature(text=texts)["probability"].numpy()[0]


def answer(question, work):
    kind, *rest = question
    keras.utils.set_random_seed(1)
    if kind == "export":
        return export(*rest)
    if kind == "make":
        start = time.perf_counter()
        work.append(globals()[rest[0]](*rest[1]))
        value = work[0]()
        return time.perf_counter() - start, f"{value:.7g}"
    if kind == "time":
        start = time.perf_counter()
        for _ in range(rest[0]):
            work[0]()
        return (time.perf_counter() - start) / rest[0]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    work = []
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line), work)) + "\n")
        answers.flush()
