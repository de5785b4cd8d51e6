"""Finds the texts whose meaning is most similar to a query, with sentence embeddings.

With --input_file an index of its lines is made and, with --index_dir, kept; --append adds them to the index that is
there. Without --input_file, the index in --index_dir is asked. An index takes no other model than the one that made it.
From 50,000 texts on, search is approximate and needs the extra `search`; --exact compares all texts.

With --text_column, --input_file is a table: .jsonl, .tsv, .csv, .parquet. Its ids and its columns of metadata are kept.
--update gives the texts with these ids those of --input_file, with --append it adds those with new ids, too, so that a
command that was killed can run again. --delete removes texts by their ids.

Example:
  python -m run_scripts.search_sentences --init_checkpoint=minilm --input_file=texts.txt --index_dir=index
  python -m run_scripts.search_sentences --init_checkpoint=minilm --input_file=more.txt --index_dir=index --append
  python -m run_scripts.search_sentences --init_checkpoint=minilm --index_dir=index --query='a kitten on a rug'
  python -m run_scripts.search_sentences --init_checkpoint=minilm --input_file=products.jsonl --text_column=text \
    --id_column=sku --metadata_columns=language,year --index_dir=products --query='warm socks' --where=language=en
"""

from absl import flags

from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_flag
from run_scripts.asked_models import (
    define_reranker_flags,
    define_runtime_flags,
    define_vector_flags,
    load_reranker,
    open_model,
    read_texts,
)


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format, or an exported folder.", required=True)
    flags.DEFINE_string("input_file", None, "Texts to search, one per line; empty lines are skipped.")
    flags.DEFINE_string("index_dir", None, "The folder of the index: to write with --input_file, to read without.")
    flags.DEFINE_string("text_column", None, "The column of the texts, where --input_file is a table.")
    flags.DEFINE_string("id_column", None, "The column of their ids.")
    flags.DEFINE_list("metadata_columns", [], "Columns that --where can name: strings, or in JSON Lines numbers too.")
    flags.DEFINE_bool("has_header", True, "Whether the first line of a .tsv or .csv file has the names of the columns.")
    flags.DEFINE_bool("append", False, "Adds the texts of --input_file to the index in --index_dir.")
    flags.DEFINE_bool("update", False, "Replaces the texts in --index_dir that have the ids of --input_file.")
    flags.DEFINE_multi_string("delete", [], "An id of a text that is removed; may be given several times.")
    flags.DEFINE_string("delete_file", None, "Ids of texts that are removed, one a line.")
    flags.DEFINE_bool("exact", False, "Compares all texts, and keeps no graph in an index that is written.")
    flags.DEFINE_multi_string("query", [], "What to look for; may be given several times.")
    flags.DEFINE_string("query_file", None, "Queries, one a line.")
    flags.DEFINE_multi_string("where", [], "column=value that a text must have; all of several must hold.")
    flags.DEFINE_bool("hybrid", False, "Searches the words too, and fuses both rankings by their reciprocal ranks.")
    define_flag("top_k", 5, "How many texts for each query.", at_least=1)
    define_reranker_flags(num_candidates=50)
    define_vector_flags()
    define_runtime_flags("model_precision")


def main():
    from keras_bert.program.atomic_output import check_output_folder

    arguments = flags.FLAGS
    index_dir = arguments.index_dir
    _refuse_flags_without_effect(arguments)
    queries = [*arguments.query, *(read_texts(arguments.query_file) if arguments.query_file else [])]
    deleted = [*arguments.delete, *(read_texts(arguments.delete_file) if arguments.delete_file else [])]
    if not arguments.input_file and not index_dir:
        raise InputError("There is nothing to search in: give --input_file, or --index_dir of an index.")
    if not queries and not deleted and not (arguments.input_file and index_dir):
        raise InputError("There is nothing to look for: give --query or --query_file.")
    texts, options = _read_input(arguments) if arguments.input_file else (None, {})
    is_new = texts is not None and not arguments.append and not arguments.update
    if is_new and index_dir:
        check_output_folder(index_dir)

    from keras_bert.embeddings.index_files import check_replaceable_index
    from keras_bert.embeddings.vector_index import VectorIndex

    index = None if is_new else VectorIndex.load(index_dir)
    if arguments.append or arguments.update or deleted:
        check_replaceable_index(index_dir)

    pooling = {"pooling": [arguments.pooling]} if arguments.pooling else {}
    encoder = open_model("SentenceEncoder", arguments.init_checkpoint, "model_precision", **pooling)
    options["batch_size"] = arguments.batch_size
    if is_new:
        index = VectorIndex.build(
            encoder, texts, max_seq_length=arguments.max_seq_length, exact=arguments.exact, **options
        )
    elif arguments.append and arguments.update:
        index.upsert(encoder, options.pop("ids"), texts, exact=arguments.exact, **options)
    elif arguments.append:
        index.append(encoder, texts, exact=arguments.exact, **options)
    elif arguments.update:
        index.update(encoder, options.pop("ids"), texts, **options)
    if deleted:
        index.delete(deleted)
    if index_dir and (texts is not None or deleted):
        index.save(index_dir, replace=not is_new)
        print(f"{index_dir}: {len(index):,} texts, vectors of {index.rows.search.shape[1]} numbers")
    if queries:
        _print_found(index, encoder, queries, arguments)


def _refuse_flags_without_effect(arguments) -> None:
    has_input, has_table = arguments.input_file, arguments.text_column
    refuse_flags_without_effect(
        has_input, "without --input_file: the index is read", "max_seq_length", "batch_size", "text_column"
    )
    refuse_flags_without_effect(has_table, "without --text_column", "id_column", "metadata_columns", "has_header")
    refuse_flags_without_effect(has_input and arguments.index_dir, "without --input_file and --index_dir", "append")
    refuse_flags_without_effect(
        arguments.id_column and arguments.index_dir, "without --id_column and --index_dir", "update"
    )
    refuse_flags_without_effect(not arguments.append, "with --append", "delete", "delete_file")
    refuse_flags_without_effect(not arguments.append, "with --append: that of the index is used", "max_seq_length")
    refuse_flags_without_effect(not arguments.update, "with --update: that of the index is used", "max_seq_length")
    refuse_flags_without_effect(arguments.index_dir, "without --index_dir", "delete", "delete_file")
    refuse_flags_without_effect(arguments.reranker, "without --reranker", "num_candidates")
    refuse_flags_without_effect(
        arguments.query or arguments.query_file, "without --query or --query_file", "top_k", "where", "hybrid"
    )


def _read_input(arguments) -> tuple[list[str], dict]:
    """Returns the texts of the input file, and `ids` and `metadata` if there are columns of them."""
    from data_prep.finetuning.complete_rows import complete_rows
    from data_prep.finetuning.tables import read_rows

    path, id_column, names = arguments.input_file, arguments.id_column, arguments.metadata_columns
    if not arguments.text_column:
        return [text for text in read_texts(path) if text], {}

    def values(row):
        one = row.label(id_column, "id") if id_column else None
        return row.text(arguments.text_column), one, [row.value(name, "metadata") for name in names]

    found = complete_rows(path, read_rows(path, has_header=arguments.has_header), values)
    options = {"ids": [one for _, one, _ in found]} if id_column else {}
    if names:
        options["metadata"] = {name: [row[number] for _, _, row in found] for number, name in enumerate(names)}
    return [text for text, _, _ in found], options


def _print_found(index, encoder, queries: list[str], arguments) -> None:
    import dataclasses

    where = dict(_condition(text, index.rows.described.schema) for text in arguments.where) or None
    num_hits = max(arguments.top_k, arguments.num_candidates) if arguments.reranker else arguments.top_k
    found = index.search(encoder, queries, num_hits, where=where, hybrid=arguments.hybrid, exact=arguments.exact)
    if arguments.reranker:
        ranker = load_reranker()
        for number, (query, hits) in enumerate(zip(queries, found, strict=True)):
            ranked = ranker.rank(query, [hit.text for hit in hits], arguments.top_k) if hits else []
            found[number] = [dataclasses.replace(hits[one.number], score=one.score) for one in ranked]
    for query, hits in zip(queries, found, strict=True):
        print(query)
        for hit in hits:
            print(f"  {hit.score:.4f}  {'' if hit.id is None else f'{hit.id}  '}{hit.text}")


def _condition(text: str, schema) -> tuple:
    """Returns the column and the value of a condition, such as `year=2020`."""
    from keras_bert.embeddings.index_rows import kind_of, type_of
    from keras_bert.program.arrow_files import pa

    name, mark, value = text.partition("=")
    if not mark:
        raise InputError(f"A condition is written column=value. Received: {text!r:.100}")
    type = type_of(name, schema)
    try:
        return name, pa.scalar(value).cast(type).as_py()
    except pa.ArrowInvalid:
        raise InputError(f"The column {name!r} has {kind_of(type)}. Received: {value!r:.100}") from None


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
