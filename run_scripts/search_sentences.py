"""Finds the texts whose meaning is most similar to a query, with sentence embeddings.

With --input_file, an index of its lines is made and, with --index_dir, stored. Without it, the index in --index_dir is
searched. An index stores which model made it and rejects others.

Example:
  python -m run_scripts.search_sentences --init_checkpoint=minilm --input_file=texts.txt --index_dir=index
  python -m run_scripts.search_sentences --init_checkpoint=minilm --index_dir=index --query='a kitten on a rug'
"""

from absl import flags

from keras_bert.program.command_line import refuse_flags_without_effect, run_command


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format, with its vocabulary.", required=True)
    flags.DEFINE_string("input_file", None, "Texts to search, one per line; empty lines are skipped.")
    flags.DEFINE_string("index_dir", None, "The folder of the index: to write with --input_file, to read without.")
    flags.DEFINE_multi_string("query", [], "The query; may be given several times.")
    flags.DEFINE_string("query_file", None, "Queries, one per line.")
    flags.DEFINE_integer("top_k", 5, "The number of texts for each query.", lower_bound=1)
    flags.DEFINE_enum("pooling", "mean", ["mean", "first"], "The mean of all tokens, or the vector of [CLS].")
    flags.DEFINE_integer(
        "max_seq_length",
        None,
        "Longer texts are cut to this many tokens. Default: 256, or all positions of a shorter model.",
        lower_bound=3,
    )
    flags.DEFINE_integer("batch_size", 32, "Number of texts per batch.", lower_bound=1)


def main():
    from keras_bert.embeddings.vector_files import read_texts
    from keras_bert.program.atomic_output import check_output_folder
    from keras_bert.program.errors import InputError

    arguments = flags.FLAGS
    refuse_flags_without_effect(
        arguments.input_file, "without --input_file: the index is read", "pooling", "max_seq_length", "batch_size"
    )
    refuse_flags_without_effect(arguments.query or arguments.query_file, "without --query or --query_file", "top_k")
    queries = [*arguments.query, *(read_texts(arguments.query_file) if arguments.query_file else [])]
    if not arguments.input_file and not arguments.index_dir:
        raise InputError("There is nothing to search. Give --input_file, or --index_dir of an index.")
    if not queries and not (arguments.input_file and arguments.index_dir):
        raise InputError("There is no query. Give --query or --query_file.")
    texts = [text for text in read_texts(arguments.input_file) if text] if arguments.input_file else None
    if texts is not None and arguments.index_dir:
        check_output_folder(arguments.index_dir)

    from keras_bert.embeddings.vector_index import VectorIndex

    index = VectorIndex.load(arguments.index_dir) if texts is None else None

    from keras_bert.models.encoder import BertEncoder
    from keras_bert.records.token_rows import row_length

    encoder = BertEncoder.from_pretrained(arguments.init_checkpoint)
    if index is None:
        longest = row_length(encoder.config, arguments.max_seq_length, 256)
        index = VectorIndex.build(
            encoder, texts, pooling=arguments.pooling, max_seq_length=longest, batch_size=arguments.batch_size
        )
        if arguments.index_dir:
            index.save(arguments.index_dir)
            print(f"{arguments.index_dir}: {len(index):,} texts, vectors of {index.vectors.shape[1]} numbers")
    if not queries:
        return
    for query, hits in zip(queries, index.search(encoder, queries, arguments.top_k), strict=True):
        print(query)
        for hit in hits:
            print(f"  {hit.score:.4f}  {hit.text}")


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
