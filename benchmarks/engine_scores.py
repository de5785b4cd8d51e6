"""Scores a search of pairs by our index, LanceDB and Qdrant, with the same vectors, and prints a Markdown table.

    python -m benchmarks.engine_scores --init_checkpoint=MODEL --pairs_file=test.tsv --corpus_files=train.tsv,dev.tsv

It needs the packages lancedb and qdrant-client. LanceDB compares all vectors, and then has an index of its own
(`IVF_HNSW_SQ`, its defaults); Qdrant compares all.
"""

import os
import tempfile

from absl import flags

from keras_bert.program.command_line import run_command

FLAGS = flags.FLAGS
NAMES = ["ndcg@10", "mrr@10", "recall@10", "recall@100"]


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A sentence encoder.", required=True)
    flags.DEFINE_string("pairs_file", None, "A table of queries and their documents, without a header.", required=True)
    flags.DEFINE_list("corpus_files", [], "Further tables whose documents belong to the corpus.")
    flags.DEFINE_list("text_columns", ["1", "2"], "The columns of the query and of the document.")
    flags.DEFINE_integer("max_seq_length", None, "Tokens of a text; by default those of the model.")
    flags.DEFINE_string("index_dir", None, "A folder in which the index is kept.", required=True)


class Engine:
    """Takes the place of an index in `evaluate_search`: `find` returns rows of the index for vectors of queries."""

    def __init__(self, index, find):
        self.texts, self.ids, self._index, self._find = index.texts, index.ids, index, find

    def search(self, model, queries, top_k, *, batch_size, exact):
        from keras_bert.embeddings.text_vectors import search_vectors
        from keras_bert.embeddings.vector_index import Hit

        vectors = search_vectors(model, queries, "query", batch_size=batch_size, **self._index.options)
        return [[Hit(number, "", 0.0) for number in self._find(vector, top_k)] for vector in vectors]


def main() -> None:
    from benchmarks.tables import table_lines
    from data_prep.finetuning.search_collections import read_search_pairs
    from keras_bert.embeddings.search_scores import evaluate_search
    from keras_bert.embeddings.vector_index import VectorIndex
    from keras_bert.tasks.embedding.model import SentenceEncoder

    options = {"corpus_files": FLAGS.corpus_files, "has_header": False}
    collection = read_search_pairs(FLAGS.pairs_file, FLAGS.text_columns, **options)
    model = SentenceEncoder.from_pretrained(FLAGS.init_checkpoint)
    if os.path.isdir(FLAGS.index_dir):
        index = VectorIndex.load(FLAGS.index_dir)
    else:
        texts = [collection.corpus[name] for name in sorted(collection.corpus)]
        index = VectorIndex.build(model, texts, max_seq_length=FLAGS.max_seq_length, exact=True)
        index.save(FLAGS.index_dir)
    with tempfile.TemporaryDirectory() as folder:
        searches = {"ours": index} | {name: Engine(index, find) for name, find in engines(index, folder)}
        scores = {name: evaluate_search(model, *collection, index=one)["search"] for name, one in searches.items()}
    rows = [[name, *(f"{of[score]:.4f}" for score in NAMES)] for name, of in scores.items()]
    print("\n".join(table_lines(["search", *NAMES], rows)))


def engines(index, folder: str):
    """Yields a name and a function from a vector to rows of the index, as docs/engines.md hands it over."""
    import lancedb
    import pyarrow as pa
    from qdrant_client import QdrantClient, models

    vectors = index.vectors
    columns = {"row": pa.array(range(len(vectors))), "vector": index.rows.live_table()["vector"]}
    database = lancedb.connect(folder)
    exact, by_index = (database.create_table(name, pa.table(columns)) for name in ("exact", "by_index"))
    by_index.create_index(metric="dot", index_type="IVF_HNSW_SQ")
    client = QdrantClient(":memory:")
    size = models.VectorParams(size=vectors.shape[1], distance=models.Distance.DOT)
    client.create_collection("texts", vectors_config=size)
    client.upload_collection("texts", vectors=vectors, ids=range(len(vectors)))

    def in_lance(table):
        def find(vector, top_k):
            found = table.search(vector).distance_type("dot").limit(top_k).to_arrow()
            return found.sort_by([("_distance", "ascending"), ("row", "ascending")])["row"].to_pylist()

        return find

    def in_qdrant(vector, top_k):
        return [point.id for point in client.query_points("texts", query=vector.tolist(), limit=top_k).points]

    return [("LanceDB", in_lance(exact)), ("LanceDB, its index", in_lance(by_index)), ("Qdrant", in_qdrant)]


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
