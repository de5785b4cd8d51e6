"""Finds the texts whose meaning is most similar to a query, with sentence embeddings.

With --input_file an index of its lines is made and, with --index_dir, kept; --append adds them to the index that is
there, but no file twice. Without --input_file, the index in --index_dir is asked. An index knows the model that made it
and takes no other.
From 50,000 texts on, search is approximate and needs the extra `search`; --exact compares all texts.

Example:
  python -m run_scripts.search_sentences --init_checkpoint=minilm --input_file=texts.txt --index_dir=index
  python -m run_scripts.search_sentences --init_checkpoint=minilm --input_file=more.txt --index_dir=index --append
  python -m run_scripts.search_sentences --init_checkpoint=minilm --index_dir=index --query='a kitten on a rug'
"""

from absl import flags

from keras_bert.config import POOLINGS
from keras_bert.program.command_line import refuse_flags_without_effect, run_command
from run_scripts.rerankers import check_reranker_flags, define_reranker_flags, load_reranker


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format, with its vocabulary.", required=True)
    flags.DEFINE_string("input_file", None, "Texts to search, one per line; empty lines are skipped.")
    flags.DEFINE_string("index_dir", None, "The folder of the index: to write with --input_file, to read without.")
    flags.DEFINE_bool("append", False, "Adds the texts of --input_file to the index in --index_dir.")
    flags.DEFINE_bool("exact", False, "Compares all texts, and keeps no graph in an index that is written.")
    flags.DEFINE_multi_string("query", [], "What to look for; may be given several times.")
    flags.DEFINE_string("query_file", None, "Queries, one a line.")
    flags.DEFINE_integer("top_k", 5, "How many texts for each query.", lower_bound=1)
    define_reranker_flags(num_candidates=50)
    flags.DEFINE_enum("pooling", None, POOLINGS, "How token vectors are pooled. Default: as the folder says, or mean.")
    flags.DEFINE_integer(
        "max_seq_length",
        None,
        "Longer texts are cut to this many tokens. Default: as the model's folder says, or all of its positions.",
        lower_bound=3,
    )
    flags.DEFINE_integer("batch_size", 32, "Number of texts per batch.", lower_bound=1)


def main():
    from keras_bert.embeddings.vector_files import read_texts
    from keras_bert.program.atomic_output import check_output_folder
    from keras_bert.program.errors import InputError

    arguments = flags.FLAGS
    index_dir = arguments.index_dir
    refuse_flags_without_effect(
        arguments.input_file, "without --input_file: the index is read", "max_seq_length", "batch_size"
    )
    refuse_flags_without_effect(arguments.input_file and index_dir, "without --input_file and --index_dir", "append")
    refuse_flags_without_effect(not arguments.append, "with --append: that of the index is used", "max_seq_length")
    check_reranker_flags()
    refuse_flags_without_effect(arguments.query or arguments.query_file, "without --query or --query_file", "top_k")
    queries = [*arguments.query, *(read_texts(arguments.query_file) if arguments.query_file else [])]
    if not arguments.input_file and not index_dir:
        raise InputError("There is nothing to search in: give --input_file, or --index_dir of an index.")
    if not queries and not (arguments.input_file and index_dir):
        raise InputError("There is nothing to look for: give --query or --query_file.")
    texts = [text for text in read_texts(arguments.input_file) if text] if arguments.input_file else None
    is_new = texts is not None and not arguments.append
    if is_new and index_dir:
        check_output_folder(index_dir)

    from keras_bert.embeddings.vector_index import VectorIndex, check_replaceable_index

    index = None if is_new else VectorIndex.load(index_dir)
    if arguments.append:
        check_replaceable_index(index_dir)

    from keras_bert.tasks.embedding.model import SentenceEncoder

    pooling = {"pooling": [arguments.pooling]} if arguments.pooling else {}
    encoder = SentenceEncoder.from_pretrained(arguments.init_checkpoint, **pooling)
    options = {"batch_size": arguments.batch_size, "exact": arguments.exact}
    if is_new:
        index = VectorIndex.build(encoder, texts, max_seq_length=arguments.max_seq_length, **options)
    elif arguments.append and index.has_added(texts):  # by this command, killed after it had saved the index
        print(f"{index_dir} has the texts of {arguments.input_file} already, so they are not added again.")
        texts = None
    elif arguments.append:
        index.append(encoder, texts, **options)
    if texts is not None and index_dir:
        index.save(index_dir, replace=arguments.append)
        print(f"{index_dir}: {len(index):,} texts, vectors of {index.vectors.shape[1]} numbers")
    if not queries:
        return
    num_hits = max(arguments.top_k, arguments.num_candidates) if arguments.reranker else arguments.top_k
    found = index.search(encoder, queries, num_hits, exact=arguments.exact)
    if arguments.reranker:
        ranker = load_reranker()
        pairs = zip(queries, found, strict=True)
        found = [ranker.rank(query, [hit.text for hit in hits], arguments.top_k) for query, hits in pairs]
    for query, hits in zip(queries, found, strict=True):
        print(query)
        for hit in hits:
            print(f"  {hit.score:.4f}  {hit.text}")


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
