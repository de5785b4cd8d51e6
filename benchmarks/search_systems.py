"""The ways to search that `search_table` compares: how each is trained, and how it ranks a corpus for a query.

Each trains on the same pairs of a seed with the recipe of `fit`: a rate of 5e-5, with a tenth of warm-up and a linear
fall. They learn for one epoch, SPLADE for two, because its head is new. Texts are cut to 64 tokens.
"""

import dataclasses
import pathlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np

LENGTH, BATCH_SIZE, DEPTH = 64, 32, 100
# The masked-LM head of SPLADE, which MiniLM lacks, is trained once, for all seeds.
HEAD_STEPS, HEAD_RATE = 400, 1.5e-4
# FLOPS of so few updates need larger weights than the defaults.
DOCUMENT_WEIGHT, QUERY_WEIGHT = 3e-3, 3e-3
MARKS = {"query": "[unused0] ", "document": "[unused1] "}
# The cross-encoder reads lists: a synopsis, its description, and mined ones of other packages.
LISTS, NEGATIVES, LIST_BATCH_SIZE, PAIR_LENGTH = 1500, 3, 16, 80
# How many candidates of the dense search are ranked again.
CANDIDATES = {"multi-vector": 100, "cross-encoder": 20}
SPARSE_BYTES = 8  # a weight and the number of its column, float32 and int32

Rank = Callable[[str], list[int]]  # a query -> numbers of documents, the best first


@dataclasses.dataclass(frozen=True)
class Run:
    """All models of one seed.

    Attributes:
        model: the folder of the encoder that all start from.
        data: a folder with debian_train.tsv, debian_dev.tsv and debian_test.tsv.
        output_dir: where finished models are.
        num_pairs: the number of training pairs.
        seed: of the choice of the pairs, new layers, dropout and order.
    """

    model: str
    data: pathlib.Path
    output_dir: pathlib.Path
    num_pairs: int
    seed: int

    def folder(self, system: str) -> pathlib.Path:
        """Returns the folder of a system: `model`, stored vectors, and `scores.json`."""
        return self.output_dir / f"seed-{self.seed}" / system

    def pairs(self, split: str) -> list[tuple[str, ...]]:
        """Returns the pairs of a synopsis and its description."""
        lines = (self.data / f"debian_{split}.tsv").read_text(encoding="utf-8").splitlines()
        return [tuple(line.split("\t")[1:3]) for line in lines]

    def training_pairs(self) -> tuple[list[str], list[str]]:
        """Returns synopses and descriptions, a random part of the training pairs."""
        pairs = self.pairs("train")
        chosen = random.Random(self.seed).sample(pairs, min(self.num_pairs, len(pairs)))
        return [synopsis for synopsis, _ in chosen], [description for _, description in chosen]

    def corpus(self) -> list[str]:
        """Returns all descriptions. The test queries' own come first, in the order of the queries."""
        return [description for split in ("test", "dev", "train") for _, description in self.pairs(split)]


def train_dense(run: Run) -> Any:
    from keras_bert import SentenceEncoder

    model = SentenceEncoder.from_pretrained(run.model)
    model.fit(run.training_pairs(), batch_size=BATCH_SIZE, max_seq_length=LENGTH, seed=run.seed, verbose=2)
    return model


def train_multi_vector(run: Run) -> Any:
    from keras_bert import MultiVectorEncoder

    lengths = {"query_length": LENGTH // 2, "document_length": LENGTH}
    model = MultiVectorEncoder.from_pretrained(run.model, prompts=MARKS, **lengths)
    model.fit(run.training_pairs(), batch_size=BATCH_SIZE, seed=run.seed, verbose=2)
    return model


def train_splade(run: Run) -> Any:
    from keras_bert import SparseEncoder
    from keras_bert.tasks.sparse.losses import SpladeLoss

    loss = SpladeLoss(document_regularizer_weight=DOCUMENT_WEIGHT, query_regularizer_weight=QUERY_WEIGHT)
    model = SparseEncoder.from_pretrained(adapted_model(run), max_seq_length=LENGTH)
    model.fit(run.training_pairs(), batch_size=BATCH_SIZE, epochs=2, seed=run.seed, loss=loss, verbose=2)
    return model


def adapted_model(run: Run) -> str:
    """Returns the folder of MiniLM with a masked-LM head, trained on the training descriptions."""
    from keras_bert import MaskedLM
    from run_scripts.adapt_to_domain import AdaptationOptions, adapt_to_domain

    start, text = run.output_dir / "new_head", run.output_dir / "descriptions.txt"
    adapted = run.output_dir / "adapted"
    if not (adapted / "model").exists():
        if not text.exists():
            text.write_text("".join(f"{text}\n\n" for _, text in run.pairs("train")), encoding="utf-8")
        if not start.exists():
            model = MaskedLM.from_pretrained(run.model)
            model.new_parts.set_trained()  # `adapt_to_domain` refuses a head that nobody has trained
            model.save_pretrained(start)
        options = AdaptationOptions(
            text=[str(text)],
            init_checkpoint=str(start),
            output_dir=str(adapted),
            num_new_tokens=0,
            max_seq_length=LENGTH,
            num_train_steps=HEAD_STEPS,
            save_checkpoints_steps=100,
            learning_rate=HEAD_RATE,
        )
        adapt_to_domain(options)
    return str(adapted / "model")


def train_cross_encoder(run: Run) -> Any:
    from keras_bert import CrossEncoder, SentenceEncoder, mine_hard_negatives

    dense = SentenceEncoder.from_pretrained(run.folder("dense") / "model", max_seq_length=LENGTH)
    synopses, descriptions = (column[:LISTS] for column in run.training_pairs())
    mined = mine_hard_negatives(dense, synopses, descriptions, num_negatives=NEGATIVES)
    model = CrossEncoder.from_pretrained(run.model)
    model.fit(mined.columns, batch_size=LIST_BATCH_SIZE, max_seq_length=PAIR_LENGTH, seed=run.seed, verbose=2)
    return model


def words(run: Run) -> tuple[Rank, float]:
    from keras_bert.embeddings.word_index import WordIndex

    index = WordIndex.build(run.corpus())
    num_bytes = index.postings.columns.nnz * SPARSE_BYTES / len(index)
    return lambda query: _found(index.nearest([query], DEPTH)), num_bytes


def untrained(run: Run) -> tuple[Rank, float]:
    return _dense_search(run, "untrained", run.model)


def dense(run: Run) -> tuple[Rank, float]:
    return _dense_search(run, "dense", run.folder("dense") / "model")


def _dense_search(run: Run, system: str, path: Any) -> tuple[Rank, float]:
    from keras_bert import SentenceEncoder, VectorIndex
    from keras_bert.embeddings.text_vectors import search_vectors

    model, folder = SentenceEncoder.from_pretrained(path), run.folder(system) / "index"
    if not folder.exists():
        VectorIndex.build(model, run.corpus(), max_seq_length=LENGTH, exact=True).save(folder)
    index = VectorIndex.load(folder)

    def rank(query: str) -> list[int]:
        return _found(index.nearest(search_vectors(model, [query], "query", max_seq_length=LENGTH), DEPTH))

    return rank, index.vectors[0].nbytes


def splade(run: Run) -> tuple[Rank, float]:
    from scipy import sparse

    from keras_bert import SparseEncoder
    from keras_bert.embeddings.postings import Postings

    model = SparseEncoder.from_pretrained(run.folder("SPLADE") / "model")
    file = run.folder("SPLADE") / "vectors.npz"
    if not file.exists():
        sparse.save_npz(file, model.encode_document(run.corpus()))
    vectors = sparse.csr_array(sparse.load_npz(file))
    postings = Postings.of_rows(vectors)
    num_bytes = vectors.nnz * SPARSE_BYTES / vectors.shape[0]
    return lambda query: _found(postings.nearest(model.encode_query([query]), DEPTH)), num_bytes


def multi_vector(run: Run) -> tuple[Rank, float]:
    from keras_bert import MultiVectorEncoder

    search, num_bytes = dense(run)
    model = MultiVectorEncoder.from_pretrained(run.folder("multi-vector") / "model")
    file = run.folder("multi-vector") / "vectors.npz"
    if not file.exists():
        found = model.encode_document(run.corpus())
        np.savez(file, vectors=np.concatenate(found), ends=np.cumsum([len(one) for one in found]))
    stored = np.load(file)
    vectors = np.split(stored["vectors"], stored["ends"][:-1])

    def rank(query: str) -> list[int]:
        candidates = search(query)[: CANDIDATES["multi-vector"]]
        scores = model.similarity(model.encode_query([query]), [vectors[number] for number in candidates])[0]
        return [candidates[place] for place in np.argsort(-scores, kind="stable")]

    return rank, num_bytes + stored["vectors"].nbytes / len(vectors)


def cross_encoder(run: Run) -> tuple[Rank, float]:
    from keras_bert import CrossEncoder

    search, num_bytes = dense(run)
    model = CrossEncoder.from_pretrained(run.folder("cross-encoder") / "model", max_seq_length=PAIR_LENGTH)
    corpus = run.corpus()

    def rank(query: str) -> list[int]:
        candidates, rest = np.split(search(query), [CANDIDATES["cross-encoder"]])
        ranked = model.rank(query, [corpus[number] for number in candidates])
        return [*(int(candidates[one.number]) for one in ranked), *rest.tolist()]

    return rank, num_bytes


def _found(nearest: tuple[np.ndarray, np.ndarray]) -> list[int]:
    return [number for number in nearest[0][0].tolist() if number >= 0]


@dataclasses.dataclass(frozen=True)
class System:
    """A way to search.

    Attributes:
        ranker: returns what ranks the corpus for a query, and how many bytes it keeps for a document.
        train: returns the trained model; None for a way that is not trained.
        needs: the systems whose models must be finished before.
    """

    ranker: Callable[[Run], tuple[Rank, float]]
    train: Callable[[Run], Any] | None = None
    needs: tuple[str, ...] = ()


SYSTEMS = {
    "BM25": System(words),
    "untrained": System(untrained),
    "dense": System(dense, train_dense),
    "SPLADE": System(splade, train_splade),
    "multi-vector": System(multi_vector, train_multi_vector, needs=("dense",)),
    "cross-encoder": System(cross_encoder, train_cross_encoder, needs=("dense",)),
}
