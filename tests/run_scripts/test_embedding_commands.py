"""`run_embeddings` and `run_classifier --few_shot`: files in, a model and its scores out; stopped runs continue."""

import json

import pytest
from tiny_checkpoints import random_checkpoint

from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.embeddings.vector_index import VectorIndex
from keras_bert.tasks.classification.sentence_classifier import SentenceClassifier
from keras_bert.tasks.embedding.losses import CosineRegression, InBatchNegatives, Matryoshka, Triplet
from keras_bert.tasks.embedding.model import SentenceEncoder
from keras_bert.tasks.ranking.model import CrossEncoder
from keras_bert.training.run_folder import RunFolder
from run_scripts import evaluate_search, run_classifier, run_embeddings, search_sentences

ROWS = [
    ("the quick fox", "quick fox", "brown the", 4.5, "fast"),
    ("brown the", "the brown", "quick fox", 1.0, "dark"),
    ("fox", "the fox", "brown brown", 2.0, "fast"),
    ("quick quick", "quickest", "the fox", 5.0, "dark"),
]
NAMES = ("a", "b", "c", "score", "label")


@pytest.fixture
def files(tmp_path):
    write_checkpoint(random_checkpoint(), tmp_path / "bert", "huggingface")
    lines = [json.dumps(dict(zip(NAMES, row, strict=True))) for row in ROWS]
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def common(files, *arguments):
    run = [f"--init_checkpoint={files / 'bert'}", f"--data_dir={files}", f"--output_dir={files / 'run'}"]
    return [*run, "--do_train", "--do_eval", "--num_train_epochs=1", "--train_batch_size=2", *arguments]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "score"),
    [
        (["--text_columns=a,b,c", "--loss=triplet", "--margin=1"], "eval_mrr@10"),
        (["--text_columns=a,b", "--score_column=score", "--score_scale=5", "--loss=cosine"], "eval_spearman"),
        (["--text_columns=a", "--label_column=label"], "eval_neighbour_accuracy"),
        (
            ["--text_columns=a,b", "--temperature=0.1", "--matryoshka_dimensions=8,4", "--pooling=cls,mean"],
            "eval_map@100",
        ),
    ],
)
def test_the_columns_decide_what_is_learnt(arguments, score, files, run_here, eagerly):
    code, printed = run_here(run_embeddings, *common(files, "--do_predict", *arguments))
    assert code == 0, printed.err
    assert score in (files / "run" / "eval_results.txt").read_text()
    assert (files / "run" / "eval_report" / "report.txt").exists()
    assert (files / "run" / "test_vectors.npy").exists()
    assert isinstance(SentenceEncoder.from_pretrained(files / "run" / "model"), SentenceEncoder)
    code, printed = run_here(run_embeddings, *common(files, *arguments))
    assert code == 0
    assert "the training is finished" in printed.out


def test_flags_make_the_loss(files, monkeypatch, run_here):
    losses = []
    monkeypatch.setattr("keras_bert.training.fine_tuning.fine_tune", lambda *args, **_: losses.append(args[2].loss))
    monkeypatch.setattr("keras_bert.training.finished_runs.evaluate_run", lambda *args, **_: {})
    run_here(run_embeddings, *common(files, "--text_columns=a,b", "--symmetric", "--matryoshka_dimensions=8,2"))
    run_here(run_embeddings, *common(files, "--text_columns=a,b", "--score_column=score", "--loss=cosine"))
    run_here(run_embeddings, *common(files, "--text_columns=a,b,c", "--loss=triplet", "--margin=1"))
    run_here(run_embeddings, *common(files, "--text_columns=a,b"))
    matryoshka = Matryoshka(InBatchNegatives(symmetric=True), [8, 2])
    assert losses == [matryoshka, CosineRegression(), Triplet(margin=1.0), None]


@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")  # but for tf.data
def test_a_search_ranks_what_it_finds(files, run_here, eagerly, without_graphs):
    reranker = CrossEncoder.from_pretrained(files / "bert")
    reranker.fit((["fox", "quick"], ["the fox", "brown the"]), [1, 0], verbose=0)
    reranker.save_pretrained(files / "reranker")
    (files / "texts.txt").write_text("the fox\nbrown the\nquick\n")
    search = [f"--init_checkpoint={files / 'bert'}", f"--index_dir={files / 'index'}", "--pooling=cls"]
    code, printed = run_here(search_sentences, *search, f"--input_file={files / 'texts.txt'}")
    assert code == 0, printed.err
    asked = ["--query=fox", f"--reranker={files / 'reranker'}", "--num_candidates=3", "--top_k=2"]
    code, printed = run_here(search_sentences, *search, *asked)
    assert code == 0, printed.err
    for added in ("5 texts", "has the texts of"):  # as after a kill behind the writing
        (files / "more.txt").write_text("a fox\nthe fox\n")
        code, appended = run_here(search_sentences, *search, f"--input_file={files / 'more.txt'}", "--append")
        assert code == 0, appended.err
        assert added in appended.out
    assert len(VectorIndex.load(files / "index")) == 5
    ranked = reranker.rank("fox", ["the fox", "brown the", "quick"], top_k=2)
    assert printed.out.splitlines()[-3:] == ["fox", *(f"  {one.score:.4f}  {one.text}" for one in ranked)]


@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")  # but for tf.data
def test_a_search_in_a_judged_collection_is_scored_in_one_table(files, run_here, eagerly, without_graphs):
    (files / "qrels").mkdir()
    (files / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\n")
    texts = {"d1": "brown the", "d2": "the fox", "d3": "quick"}
    lines = [json.dumps({"_id": name, "title": "", "text": text}) + "\n" for name, text in texts.items()]
    (files / "corpus.jsonl").write_text("".join(reversed(lines)))
    (files / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "the fox"}) + "\n")
    scoring = [f"--init_checkpoint={files / 'bert'}", f"--data_dir={files}", f"--index_dir={files / 'index'}", "--ks=1"]
    code, printed = run_here(evaluate_search, *scoring)
    assert code == 0, printed.err
    assert printed.out.splitlines()[-5:] == [
        "score     search",
        *(f"{name + '@1':8}  1.0000" for name in ("ndcg", "mrr", "map", "recall")),
    ]
    assert "Queries: 1, each ranked against all documents: 3" in printed.out
    reranker = CrossEncoder.from_pretrained(files / "bert")
    reranker.new_parts.set_trained()
    reranker.save_pretrained(files / "reranker")
    code, printed = run_here(evaluate_search, *scoring, f"--reranker={files / 'reranker'}")  # reads the index
    assert code == 0, printed.err
    assert "search  re-ranked" in printed.out
    code, printed = run_here(evaluate_search, *scoring, "--max_seq_length=9")
    assert code == 1
    assert "was made with --max_seq_length=None. Received: 9" in printed.err
    code, printed = run_here(evaluate_search, *scoring, "--ks=1,a")
    assert "--ks must be whole numbers" in printed.err


@pytest.mark.slow
def test_a_few_texts_train_a_classifier(files, run_here, eagerly):
    arguments = ["--text_column=a", "--label_column=label", "--few_shot"]
    code, printed = run_here(run_classifier, *common(files, *arguments, "--do_predict"))
    assert code == 0, printed.err
    assert "eval_accuracy" in (files / "run" / "eval_results.txt").read_text()
    assert SentenceClassifier.from_pretrained(RunFolder(files / "run").model_path).labels == ("dark", "fast")
    code, printed = run_here(run_classifier, *common(files, *arguments))
    assert "the training is finished" in printed.out


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (run_embeddings, ["--text_columns=a,missing"], "missing"),
        (run_embeddings, ["--text_columns=a,b", "--margin=1"], "The loss in_batch_negatives has no --margin"),
        (run_embeddings, ["--text_columns=a,b", "--matryoshka_dimensions=x"], "must be whole numbers"),
        (
            run_embeddings,
            ["--text_columns=a,b", "--score_scale=5"],
            "--score_scale has no effect without --score_column",
        ),
        (
            run_embeddings,
            ["--text_columns=a,b", "--cross_encoder", "--pooling=cls"],
            "--cross_encoder has no --pooling",
        ),
        (run_embeddings, ["--text_columns=a,b", "--cross_encoder"], "there is nothing to rank"),
        (run_embeddings, ["--text_columns=a"], "nothing to learn from single texts"),
        (
            run_classifier,
            ["--text_column=a", "--label_column=score", "--few_shot", "--problem_type=regression"],
            "one label per text",
        ),
        (run_classifier, ["--text_column=a", "--label_column=label", "--few_shot", "--lora_rank=2"], "no --lora_rank"),
        (
            run_classifier,
            ["--text_column=a", "--second_text_column=b", "--label_column=label", "--few_shot"],
            "single texts. Received: pairs",
        ),
    ],
)
def test_flags_that_do_not_fit_are_refused_in_one_line(command, arguments, message, files, run_here):
    code, printed = run_here(command, *common(files, *arguments))
    assert code == 1
    assert message in printed.err.splitlines()[-1]
