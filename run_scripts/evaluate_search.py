"""Scores searches in a judged collection: every query is ranked against the whole corpus.

The collection is a folder in the form of a BEIR data set, --data_dir: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv.
Or it is a table of queries and their documents, --pairs_file; --corpus_files names tables with further documents.

Prints one table of nDCG@k, MRR@k, MAP@k and recall@k, with a column for each search that is asked for:

    search         --init_checkpoint: sentence embeddings
    sparse         --sparse_encoder: sparse vectors
    multi-vector   --multi_vector_encoder: a vector for each token
    BM25           words; with --hybrid, or without any model
    hybrid         --hybrid: the reciprocal rank fusion of all of these
    re-ranked      --reranker: what a model makes of the hybrid search or, without --hybrid, of the first column

With --index_dir, the index of the sentence embeddings is kept there, and read by the next call. From 50,000 documents
on such an index is searched approximately, which needs the extra `search`; --exact compares all documents.

Example:
  python -m run_scripts.evaluate_search --init_checkpoint=minilm --data_dir=scifact --hybrid --reranker=ms-marco-MiniLM
  python -m run_scripts.evaluate_search --init_checkpoint=minilm --pairs_file=test.tsv --corpus_files=train.tsv,dev.tsv
"""

from absl import flags

from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_flag, flags_by_name
from run_scripts.asked_models import (
    define_reranker_flags,
    define_runtime_flags,
    define_vector_flags,
    load_reranker,
    open_model,
)


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint with its vocabulary, or an exported folder.")
    flags.DEFINE_string("sparse_encoder", None, "A checkpoint of a SparseEncoder.")
    flags.DEFINE_string("multi_vector_encoder", None, "A checkpoint of a MultiVectorEncoder.")
    flags.DEFINE_bool("hybrid", False, "Searches the words too, and fuses all rankings.")
    flags.DEFINE_string("data_dir", None, "A folder in the form of a BEIR data set.")
    flags.DEFINE_string("split", "test", "Which judgements count: those of qrels/SPLIT.tsv.")
    flags.DEFINE_bool("strict", False, "Refuse a folder in which ids are missing or occur twice, or texts are empty.")
    flags.DEFINE_string("pairs_file", None, "A table of queries and their documents, instead of --data_dir.")
    flags.DEFINE_list("corpus_files", [], "Tables whose documents belong to the corpus too, beside those of the pairs.")
    help = "The columns of these tables. Default: query,document, or FlagEmbedding's query,pos,neg."
    flags.DEFINE_list("text_columns", None, help)
    flags.DEFINE_boolean("has_header", True, "Whether the first line of .tsv and .csv files names the columns.")
    define_flag("ks", [1, 10, 100], "The numbers of ranks that count.", is_list=True, at_least=1)
    flags.DEFINE_string("index_dir", None, "The folder of the index: read if it is there, else written.")
    flags.DEFINE_bool("exact", False, "Compares all documents, and keeps no graph in an index that is written.")
    define_reranker_flags(num_candidates=100)
    define_vector_flags("as the model's folder, or the index that is read, says")
    define_runtime_flags()


def main():
    from keras_bert.program.atomic_output import check_output_folder

    arguments = flags.FLAGS
    index_dir = arguments.index_dir
    of_vectors = ("index_dir", "exact", "pooling", "max_seq_length", "runtime", "precision")
    refuse_flags_without_effect(arguments.init_checkpoint, "without --init_checkpoint", *of_vectors)
    refuse_flags_without_effect(index_dir, "without --index_dir: all documents are compared", "exact")
    has_model = arguments.init_checkpoint or arguments.sparse_encoder or arguments.multi_vector_encoder
    refuse_flags_without_effect(has_model, "without a model: only the words are searched", "hybrid")
    refuse_flags_without_effect(arguments.reranker, "without --reranker", "num_candidates")
    if index_dir and not _is_filled(index_dir):
        check_output_folder(index_dir)
    collection = _collection()

    from keras_bert.embeddings.search_scores import evaluate_search
    from keras_bert.tasks.report_files import aligned

    model, index = _model_and_index(collection) if arguments.init_checkpoint else (None, None)
    scores = evaluate_search(
        model,
        *collection,
        index=index,
        others=_other_models(),
        reranker=load_reranker(),
        **flags_by_name("ks", "exact", "hybrid", "num_candidates", "batch_size"),
    )
    num_queries = sum(map(bool, collection.relevant.values()))
    print(f"Queries: {num_queries:,}, each ranked against all documents: {len(collection.corpus):,}")
    names = next(iter(scores.values()))
    print(aligned(["score", *scores], [[name, *(of[name] for of in scores.values())] for name in names]), end="")


def _is_filled(folder: str) -> bool:
    import os

    return os.path.isdir(folder) and bool(os.listdir(folder))


def _collection():
    from data_prep.finetuning.search_collections import read_beir_folder, read_search_pairs

    arguments = flags.FLAGS
    if bool(arguments.data_dir) == bool(arguments.pairs_file):
        raise InputError("Give the collection: either --data_dir, a BEIR folder, or --pairs_file, a table of pairs.")
    of_pairs = ("corpus_files", "text_columns", "has_header")
    refuse_flags_without_effect(arguments.pairs_file, "without --pairs_file", *of_pairs)
    refuse_flags_without_effect(arguments.data_dir, "without --data_dir", "split", "strict")
    if arguments.data_dir:
        return read_beir_folder(arguments.data_dir, arguments.split, strict=arguments.strict)
    options = flags_by_name("corpus_files", "has_header")
    return read_search_pairs(arguments.pairs_file, arguments.text_columns, **options)


def _model_and_index(collection):
    """Returns the encoder, and the index of the corpus, read or made."""
    from keras_bert.embeddings.vector_index import VectorIndex

    arguments, length = flags.FLAGS, flags.FLAGS.max_seq_length
    index_dir = arguments.index_dir
    index = VectorIndex.load(index_dir) if index_dir and _is_filled(index_dir) else None
    if index is not None and length not in (None, index.options["max_seq_length"]):
        raise InputError(
            f"The index in {index_dir} was made with --max_seq_length={index.options['max_seq_length']}. Received: "
            f"{length}. Leave it out, or give another --index_dir."
        )
    pooling = {"pooling": [arguments.pooling]} if arguments.pooling else {}
    encoder = open_model("SentenceEncoder", arguments.init_checkpoint, **pooling)
    if index is None:
        texts = [collection.corpus[name] for name in sorted(collection.corpus)]
        exact = arguments.exact or not index_dir
        index = VectorIndex.build(encoder, texts, max_seq_length=length, batch_size=arguments.batch_size, exact=exact)
        if index_dir:
            index.save(index_dir)
    return encoder, index


def _other_models() -> dict:
    from keras_bert import registry

    paths = {"SparseEncoder": flags.FLAGS.sparse_encoder, "MultiVectorEncoder": flags.FLAGS.multi_vector_encoder}
    columns = {"SparseEncoder": "sparse", "MultiVectorEncoder": "multi-vector"}
    return {
        columns[kind]: registry.imported(registry.task(kind).model).from_pretrained(path)
        for kind, path in paths.items()
        if path
    }


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
