"""The work that `benchmarks.growth` measures: what grows, at which sizes, and by which power its time may grow."""

import dataclasses
import os
import shutil
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from benchmarks.gpu_core_work import random_batch
from data_prep.build_vocabulary import build_vocabulary
from data_prep.create_pretraining_data import create_pretraining_data
from keras_bert.config import BertConfig
from keras_bert.layers.numbered_mask import position_ids
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.models.span_classifier import SpanClassifier
from keras_bert.models.token_classifier import TokenClassifier
from keras_bert.optimization import AdamW
from keras_bert.tf_serving.ask import SavedModel
from keras_bert.tokenization.graph_wordpiece import GraphTokenizer
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

VOCAB_SIZE = 2000
MOST_POSITIONS = 2048


@dataclasses.dataclass(frozen=True)
class Growth:
    """Something whose size can be chosen.

    Attributes:
        name: what is done, to what.
        sizes: from small to large, in `unit`.
        order: the highest power of the size that the work has in theory.
        prepare: a function from a size to the work, a function without arguments, which is what is timed.
    """

    name: str
    unit: str
    sizes: tuple[int, ...]
    order: int
    prepare: Callable[[int], Callable[[], object]]


def growths(folder: str) -> list[Growth]:
    """Returns all that is measured. Files go into `folder`."""
    text = GrowingText(folder)
    models = GrowingModels(folder, text)
    return [
        Growth("encoder forward", "tokens of a row", (128, 256, 512, 1024, 2048), 2, models.forward_of_length),
        Growth("encoder forward", "rows", (4, 8, 16, 32, 64), 1, models.forward_of_rows),
        Growth("encoder forward", "layers", (2, 4, 8, 16), 1, models.forward_of_layers),
        Growth("training step", "tokens of a row", (128, 256, 512, 1024), 2, models.step_of_length),
        Growth("training step", "rows", (4, 8, 16, 32), 1, models.step_of_rows),
        Growth("training step", "layers", (2, 4, 8, 16), 1, models.step_of_layers),
        Growth("positions of packed rows", "tokens of a row", (256, 512, 1024, 2048), 2, positions_of_length),
        Growth("tagging step", "labels", (16, 64, 256, 1024), 1, models.step_of_labels),
        Growth("pre-training records", "kB of text", (250, 500, 1000, 2000), 1, text.records_of_text),
        Growth("pre-training records, one document", "kB of text", (250, 500, 1000, 2000), 1, text.records_of_one),
        Growth("pre-training records, tiny documents", "kB of text", (250, 500, 1000, 2000), 1, text.records_of_many),
        Growth("vocabulary", "kB of text", (250, 500, 1000, 2000), 1, text.vocabulary_of_text),
        Growth("tokenizer, one line", "kB", (64, 128, 256, 512), 1, text.tokens_of_line),
        Growth("tokenizer, one word", "kB", (256, 512, 1024, 2048), 1, text.tokens_of_word),
        Growth("tokenizer in the graph, one line", "kB", (64, 128, 256, 512), 1, text.graph_tokens_of_line),
        Growth("tokenizer in the graph, one word", "kB", (256, 512, 1024, 2048), 1, text.graph_tokens_of_word),
        Growth("served tagger, one text", "kB", (64, 128, 256, 512), 1, models.tagged_text),
        Growth("served answers, one context", "kB", (64, 128, 256, 512), 1, models.answered_context),
    ]


class GrowingText:
    """Made-up text: words whose frequencies follow Zipf's law, so that new ones keep coming, in sentences."""

    def __init__(self, folder: str):
        self.folder = folder
        draw = np.random.default_rng(1)
        letters = np.frombuffer(b"etaoinshrdlucmfwypvbgkjqxz", "S1").astype(str)
        lengths = draw.integers(2, 11, 50_000)
        self._words = ["".join(draw.choice(letters, length)) for length in lengths]
        small = self.write("small.txt", 200, 1000)
        self.vocab_file = os.path.join(folder, "vocab.txt")
        build_vocabulary(small, self.vocab_file, vocab_size=VOCAB_SIZE)

    def words(self, kilobytes: int, seed: int = 2) -> list[str]:
        """Returns words that take about so much room with a space behind each."""
        draw = np.random.default_rng(seed)
        ranks = draw.zipf(1.3, kilobytes * 1000 // 4)
        words, size = [], 0
        for rank in ranks:
            words.append(self._words[rank % len(self._words)])
            size += len(words[-1]) + 1
            if size >= kilobytes * 1000:
                break
        return words

    def line(self, kilobytes: int) -> str:
        return " ".join(self.words(kilobytes))

    def write(self, name: str, kilobytes: int, words_of_document: int) -> str:
        """Writes sentences of 12 words, one a line, in documents of so many words; 0: in one document."""
        path = os.path.join(self.folder, name)
        words = self.words(kilobytes)
        with open(path, "w", encoding="utf-8") as file:
            for start in range(0, len(words), 12):
                file.write(" ".join(words[start : start + 12]) + ".\n")
                if words_of_document and (start // 12 + 1) % (words_of_document // 12) == 0:
                    file.write("\n")
        return path

    def _records(self, kind: str, kilobytes: int, words_of_document: int):
        text = self.write(f"{kind}{kilobytes}.txt", kilobytes, words_of_document)
        output = os.path.join(self.folder, f"{kind}{kilobytes}")

        def work():
            shutil.rmtree(output, ignore_errors=True)
            create_pretraining_data(text, self.vocab_file, output_dir=output, num_shards=1)

        return work

    def records_of_text(self, kilobytes: int):
        return self._records("text", kilobytes, 1200)

    def records_of_one(self, kilobytes: int):
        return self._records("one", kilobytes, 0)

    def records_of_many(self, kilobytes: int):
        return self._records("many", kilobytes, 24)

    def vocabulary_of_text(self, kilobytes: int):
        text = self.write(f"vocabulary{kilobytes}.txt", kilobytes, 1200)
        return lambda: build_vocabulary(text, os.path.join(self.folder, "learned.txt"), vocab_size=VOCAB_SIZE)

    def tokens_of_line(self, kilobytes: int):
        line, tokenizer = self.line(kilobytes), WordPieceTokenizer(Vocabulary.from_file(self.vocab_file))
        return lambda: tokenizer.encode(line)

    def tokens_of_word(self, kilobytes: int):
        word, tokenizer = "a" * (1000 * kilobytes), WordPieceTokenizer(Vocabulary.from_file(self.vocab_file))
        return lambda: tokenizer.encode(word)

    def _graph_tokenizer(self):
        if not hasattr(self, "_made_tokenizer"):
            tokenizer = GraphTokenizer(Vocabulary.from_file(self.vocab_file))
            self._made_tokenizer = tf.function(tokenizer.tokenize, input_signature=[tf.TensorSpec([None], tf.string)])
        return self._made_tokenizer

    def graph_tokens_of_line(self, kilobytes: int):
        texts, tokenize = tf.constant([self.line(kilobytes)]), self._graph_tokenizer()
        return lambda: tokenize(texts)

    def graph_tokens_of_word(self, kilobytes: int):
        texts, tokenize = tf.constant(["a" * (1000 * kilobytes)]), self._graph_tokenizer()
        return lambda: tokenize(texts)


class GrowingModels:
    """Small models on random rows, and exports of untrained ones."""

    def __init__(self, folder: str, text: GrowingText):
        self.folder, self.text = folder, text
        self._served = {}

    def _config(self, layers: int = 2) -> BertConfig:
        return BertConfig.from_size(
            "tiny", VOCAB_SIZE, num_hidden_layers=layers, max_position_embeddings=MOST_POSITIONS, num_attention_heads=2
        )

    def _forward(self, rows: int, length: int, layers: int):
        encoder = BertEncoder(self._config(layers))
        batch = random_batch(rows, length, 4, VOCAB_SIZE)
        inputs = {name: tf.constant(batch[name]) for name in encoder.feature_names}
        run = tf.function(lambda: encoder(inputs)["sequence_output"], autograph=False)
        return lambda: run().numpy()

    def forward_of_length(self, length: int):
        return self._forward(2, length, 2)

    def forward_of_rows(self, rows: int):
        return self._forward(rows, 128, 2)

    def forward_of_layers(self, layers: int):
        return self._forward(8, 128, layers)

    def _step(self, model, data):
        model.compile(AdamW(1e-4), jit_compile=False)
        model.optimizer.build(model.trainable_variables)
        model.make_train_function()
        batches = iter(tf.data.Dataset.from_tensors(data).repeat())
        return lambda: float(model.train_function(batches)["loss"])

    def _pretraining_step(self, rows: int, length: int, layers: int):
        batch = random_batch(rows, length, length // 8, VOCAB_SIZE)
        return self._step(BertPretrainer(self._config(layers)), batch)

    def step_of_length(self, length: int):
        return self._pretraining_step(2, length, 2)

    def step_of_rows(self, rows: int):
        return self._pretraining_step(rows, 128, 2)

    def step_of_layers(self, layers: int):
        return self._pretraining_step(8, 128, layers)

    def step_of_labels(self, labels: int):
        model = TokenClassifier(self._config(), labels=[f"label{number}" for number in range(labels)])
        batch = random_batch(16, 128, 4, VOCAB_SIZE)
        tags = batch["input_ids"] % labels
        return self._step(model, ({name: batch[name] for name in model.feature_names}, tags))

    def _exported(self, kind: str) -> SavedModel:
        if kind not in self._served:
            keras.utils.set_random_seed(1)
            config = self._config().replace(max_position_embeddings=128)
            model = SpanClassifier(config)
            if kind == "tagger":
                model = TokenClassifier(config, labels=["O", "B-PLACE", "I-PLACE", "B-NAME", "I-NAME"])
            model.vocabulary = Vocabulary.from_file(self.text.vocab_file)
            self._served[kind] = SavedModel(model.export_for_serving(os.path.join(self.folder, kind)))
        return self._served[kind]

    def tagged_text(self, kilobytes: int):
        model, line = self._exported("tagger"), self.text.line(kilobytes)
        return lambda: model.ask([line])

    def answered_context(self, kilobytes: int):
        model, line = self._exported("answers"), self.text.line(kilobytes)
        return lambda: model.ask([self.text.line(1)[:40]], [line])


def positions_of_length(length: int):
    mask = tf.constant(np.arange(length)[None] // 50 + 1, "int32")
    run = tf.function(lambda: position_ids(mask), autograph=False)
    return lambda: run().numpy()
