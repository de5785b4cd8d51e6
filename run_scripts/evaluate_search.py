"""Scores a search by sentence embeddings in a judged collection: every query is ranked against the whole corpus.

--data_dir has the form of a BEIR data set: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv. Prints one table, nDCG@k,
MRR@k, MAP@k and recall@k, for the search and, with --reranker, for what a CrossEncoder makes of it.
With --index_dir, the index of the corpus is kept there, and read by the next call. From 50,000 documents on such an
index is searched approximately, which needs the extra `search`; --exact compares all documents.

Example:
  python -m run_scripts.evaluate_search --init_checkpoint=minilm --data_dir=scifact --reranker=ms-marco-MiniLM-L6-v2
"""

from absl import flags

from keras_bert.config import POOLINGS
from keras_bert.program.command_line import refuse_flags_without_effect, run_command


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format, with its vocabulary.", required=True)
    flags.DEFINE_string("data_dir", None, "A folder in the form of a BEIR data set.", required=True)
    flags.DEFINE_string("split", "test", "Which judgements count: those of qrels/SPLIT.tsv.")
    flags.DEFINE_list("ks", ["1", "10", "100"], "The numbers of ranks that count.")
    flags.DEFINE_string("index_dir", None, "The folder of the index: read if it is there, else written.")
    flags.DEFINE_bool("exact", False, "Compares all documents, and keeps no graph in an index that is written.")
    flags.DEFINE_string("reranker", None, "A checkpoint of a CrossEncoder, which ranks again what is found.")
    flags.DEFINE_integer("num_candidates", 100, "How many documents it ranks for each query.", lower_bound=1)
    flags.DEFINE_enum("pooling", None, POOLINGS, "How token vectors are pooled. Default: as the folder says, or mean.")
    flags.DEFINE_integer(
        "max_seq_length",
        None,
        "Longer texts are cut to this many tokens. Default: as the model's folder, or the index that is read, says.",
        lower_bound=3,
    )
    flags.DEFINE_integer("batch_size", 32, "Number of texts per batch.", lower_bound=1)


def main():
    import os

    from data_prep.finetuning.beir_folder import read_beir_folder
    from keras_bert.program.atomic_output import check_output_folder
    from keras_bert.program.errors import InputError

    arguments = flags.FLAGS
    index_dir = arguments.index_dir
    has_index = bool(index_dir) and os.path.isdir(index_dir) and bool(os.listdir(index_dir))
    refuse_flags_without_effect(arguments.reranker, "without --reranker", "num_candidates")
    refuse_flags_without_effect(index_dir, "without --index_dir: all documents are compared", "exact")
    try:
        ks = [int(number) for number in arguments.ks]
    except ValueError:
        ks = []
    if min(ks, default=0) < 1:
        given = ",".join(arguments.ks)
        raise InputError(f"--ks must be whole numbers from 1, with commas between. Received: {given!r}")
    if index_dir and not has_index:
        check_output_folder(index_dir)
    found = read_beir_folder(arguments.data_dir, arguments.split)

    from keras_bert.embeddings.search_scores import evaluate_search
    from keras_bert.embeddings.vector_index import VectorIndex
    from keras_bert.tasks.embedding.model import SentenceEncoder
    from keras_bert.tasks.ranking.model import CrossEncoder
    from keras_bert.tasks.report_files import aligned

    index, length = VectorIndex.load(index_dir) if has_index else None, arguments.max_seq_length
    if index is not None and length not in (None, index.options["max_seq_length"]):
        raise InputError(
            f"The index in {index_dir} was made with --max_seq_length={index.options['max_seq_length']}. Received: "
            f"{length}. Leave it out, or give another --index_dir."
        )
    pooling = {"pooling": [arguments.pooling]} if arguments.pooling else {}
    encoder = SentenceEncoder.from_pretrained(arguments.init_checkpoint, **pooling)
    reranker = CrossEncoder.from_pretrained(arguments.reranker) if arguments.reranker else None
    if index is None:
        texts = [found.corpus[name] for name in sorted(found.corpus)]
        exact = arguments.exact or not index_dir
        index = VectorIndex.build(encoder, texts, max_seq_length=length, batch_size=arguments.batch_size, exact=exact)
        if index_dir:
            index.save(index_dir)
    options = {"num_candidates": arguments.num_candidates, "batch_size": arguments.batch_size}
    scores = evaluate_search(encoder, *found, ks=ks, index=index, exact=arguments.exact, reranker=reranker, **options)
    num_queries = sum(map(bool, found.relevant.values()))
    print(f"Queries: {num_queries:,}, each ranked against all documents: {len(found.corpus):,}")
    print(
        aligned(["score", *scores], [[name, *(of[name] for of in scores.values())] for name in scores["search"]]),
        end="",
    )


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
