"""`run_embeddings` and `run_classifier --few_shot`: files in, a model and its scores out; stopped runs continue."""

import json

import numpy as np
import pytest
from tiny_checkpoints import random_checkpoint

from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.embeddings.vector_index import VectorIndex
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.sentence_classifier import SentenceClassifier
from keras_bert.tasks.embedding.loss_table import LOSSES
from keras_bert.tasks.embedding.losses import (
    AnglE,
    CosineRegression,
    InBatchNegatives,
    LabelTriplets,
    Matryoshka,
    Triplet,
)
from keras_bert.tasks.embedding.model import SentenceEncoder
from keras_bert.tasks.embedding.teacher_losses import GISTEmbed, MarginMSE
from keras_bert.tasks.multi_vector.max_sim import MAX_SIM_LOSSES
from keras_bert.tasks.multi_vector.model import MultiVectorEncoder
from keras_bert.tasks.ranking.loss_table import RANKING_LOSSES
from keras_bert.tasks.ranking.losses import LambdaLoss
from keras_bert.tasks.ranking.model import CrossEncoder
from keras_bert.tasks.sparse.encoding import SPARSE_LOSSES
from keras_bert.training.run_folder import RunFolder
from run_scripts import evaluate_search, run_classifier, run_embeddings, search_sentences
from run_scripts.run_embeddings import DataSet

ROWS = [
    ("the quick fox", "quick fox", "brown the", 4.5, "fast", [2.0, 1.0]),
    ("brown the", "the brown", "quick fox", 1.0, "dark", [1, 0]),
    ("fox", "the fox", "brown brown", 2.0, "fast", [-2.0, 1.0]),
    ("quick quick", "quickest", "the fox", 5.0, "dark", "[0, 2]"),
]
NAMES = ("a", "b", "c", "score", "label", "scores")


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


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("arguments", "score"),
    [
        (["--text_columns=a,b", "--temperature=0.1", "--matryoshka_dimensions=8,4"], "eval_map@100"),
        slow(["--text_columns=a,b,c", "--loss=triplet", "--margin=1", "--pooling=cls,mean"], "eval_mrr@10"),
        slow(["--text_columns=a,b", "--score_column=score", "--score_scale=5", "--loss=cosine"], "eval_spearman"),
        slow(["--text_columns=a", "--label_column=label"], "eval_neighbour_accuracy"),
    ],
)
def test_the_columns_decide_what_is_learnt(arguments, score, files, done_here, eagerly, without_graphs):
    done_here(run_embeddings, *common(files, "--do_predict", *arguments))
    assert score in (files / "run" / "eval_results.txt").read_text()
    assert (files / "run" / "eval_report" / "report.txt").exists()
    model = SentenceEncoder.from_pretrained(files / "run" / "model")
    first = np.load(files / "run" / "test_vectors.npy").reshape(len(ROWS), -1)[:, : model.embedding_size]
    np.testing.assert_allclose(first, model.encode([row[0] for row in ROWS]), atol=1e-5)
    printed = done_here(run_embeddings, *common(files, *arguments))
    assert "the training is finished" in printed.out


def test_a_cross_encoder_is_trained_and_its_scores_are_written(files, done_here, eagerly, without_graphs):
    done_here(run_embeddings, *common(files, "--do_predict", "--text_columns=a,b,c", "--cross_encoder"))
    columns = tuple(list(column) for column in zip(*(row[:3] for row in ROWS), strict=True))
    expected = CrossEncoder.from_pretrained(files / "run" / "model").predict(columns)
    np.testing.assert_allclose(np.loadtxt(files / "run" / "test_results.tsv"), expected, atol=1e-5)


def test_lists_of_right_and_wrong_texts_are_examples(tmp_path, caplog):
    path = tmp_path / "flag.jsonl"
    rows = [{"query": "a", "pos": ["b", "c"], "neg": ["d", "e"]}, {"query": "f", "pos": ["g"], "neg": ["h"]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data, options = DataSet(["query", "pos", "neg"]), {"has_header": True, "skip_missing": False}
    found = data.read(str(path), with_labels=True, **options)
    assert found.columns == [["a", "a", "f"], ["b", "c", "g"], ["d", "d", "h"]]
    assert "examples have 1 to 2 negatives. The first 1 of each are used" in caplog.text
    path.write_text(json.dumps(rows[0]) + "\n" + json.dumps({**rows[1], "neg": []}))
    with pytest.raises(InputError, match=r"1 of 2 rows .* line 2: the text in column 'neg' is \[\]"):
        data.read(str(path), with_labels=True, **options)


def test_flags_make_the_loss(files, monkeypatch, run_here):
    losses = []
    monkeypatch.setattr("keras_bert.training.fine_tuning.fine_tune", lambda *args, **_: losses.append(args[2]))
    monkeypatch.setattr("keras_bert.training.finished_runs.evaluate_run", lambda *args, **_: {})
    run_here(run_embeddings, *common(files, "--text_columns=a,b", "--symmetric", "--matryoshka_dimensions=8,2"))
    run_here(run_embeddings, *common(files, "--text_columns=a,b", "--score_column=score", "--loss=cosine"))
    run_here(run_embeddings, *common(files, "--text_columns=a,b,c", "--loss=triplet", "--margin=1"))
    run_here(run_embeddings, *common(files, "--text_columns=a,b"))
    run_here(run_embeddings, *common(files, "--text_columns=a,b,c", "--loss=gist_embed", "--guide=g", "--margin=0.1"))
    scored = ["--text_columns=a,b,c", "--score_column=scores", "--score_scale=2"]
    run_here(run_embeddings, *common(files, *scored, "--loss=margin_mse"))
    run_here(run_embeddings, *common(files, *scored, "--loss=lambda_loss", "--cross_encoder"))
    matryoshka = Matryoshka(InBatchNegatives(symmetric=True), [8, 2])
    expected = [matryoshka, CosineRegression(), Triplet(margin=1.0), None, GISTEmbed("g", margin=0.1), MarginMSE()]
    assert [train.loss for train in losses] == [*expected, LambdaLoss()]
    assert losses[-1].scores == [[1.0, 0.5], [0.5, 0.0], [-1.0, 0.5], [0.0, 1.0]]


def test_further_data_sets_come_from_a_file(files, monkeypatch, done_here):
    found = []
    monkeypatch.setattr("keras_bert.training.fine_tuning.fine_tune", lambda *args, **_: found.append(args[2]))
    monkeypatch.setattr("keras_bert.training.finished_runs.evaluate_run", lambda *args, **_: {})
    more = [
        {"train_file": str(files / "dev.jsonl"), "text_columns": ["a", "b"], "score_column": "score", "loss": "angle"},
        {"train_file": str(files / "test.jsonl"), "text_columns": ["a"], "label_column": "label", "margin": 2.0},
    ]
    (files / "more.json").write_text(json.dumps(more))
    sets = ["--text_columns=a,b", f"--more_data={files / 'more.json'}", "--sampler=round_robin"]
    done_here(run_embeddings, *common(files, *sets))
    assert found[0].sampler == "round_robin"
    assert [part.loss for part in found[0].parts] == [None, AnglE(), LabelTriplets(margin=2.0)]
    assert [part.kind for part in found[0].parts] == ["pairs", "scores", "labels"]


@pytest.mark.slow
def test_data_sets_with_a_teacher_train_and_stopped_runs_keep_its_scores(files, done_here, refused_here, eagerly):
    more = [{"train_file": str(files / "dev.jsonl"), "text_columns": ["a", "b", "c"], "loss": "distill_kl_div"}]
    more[0]["teacher"] = str(files / "bert")
    (files / "more.json").write_text(json.dumps(more))
    sets = ["--text_columns=a,b", f"--more_data={files / 'more.json'}"]
    printed = refused_here(run_embeddings, *common(files, *sets))
    assert "A teacher of texts is a CrossEncoder or a SentenceEncoder" in printed.err
    teacher = CrossEncoder.from_pretrained(files / "bert")
    teacher.new_parts.set_trained()
    teacher.save_pretrained(files / "teacher")
    (files / "more.json").write_text(json.dumps([{**more[0], "teacher": str(files / "teacher")}]))
    sets.append(f"--output_dir={files / 'second'}")
    done_here(run_embeddings, *common(files, *sets))
    assert np.load(files / "second" / "teacher_labels_2.npy").shape == (4, 2)
    assert "eval_ndcg@10" in (files / "second" / "eval_results.txt").read_text()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"train_file": "x"}, "the file must be a list"),
        ([{"text_columns": ["a"]}], "data set 1: it must have a train_file and text_columns"),
        (
            [{"train_file": "x", "text_columns": ["a"], "lose": "angle"}],
            "there is no 'lose'. Possible are: train_file, ",
        ),
        ([{"train_file": "x", "text_columns": "a"}], "data set 1: text_columns must be a list of texts. Received: 'a'"),
        ([{"train_file": "x", "text_columns": ["a"], "margin": True}], "margin must be a number. Received: True"),
    ],
)
def test_a_file_of_data_sets_that_is_not_valid_is_refused(more, message, files, refused_here):
    (files / "more.json").write_text(json.dumps(more))
    printed = refused_here(run_embeddings, *common(files, "--text_columns=a,b", f"--more_data={files / 'more.json'}"))
    assert message in printed.err


def test_help_says_what_every_loss_needs(run_here):
    _, printed = run_here(run_embeddings, "--help")
    for table in (LOSSES, RANKING_LOSSES, SPARSE_LOSSES, MAX_SIM_LOSSES):
        for name, entry in table.items():
            assert f"    {name:<22}{entry.needs}\n" in printed.out


@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")  # but for tf.data
def test_a_search_ranks_what_it_finds(files, done_here, eagerly, without_graphs):
    reranker = CrossEncoder.from_pretrained(files / "bert")
    reranker.fit((["fox", "quick"], ["the fox", "brown the"]), [1, 0], verbose=0)
    reranker.save_pretrained(files / "reranker")
    (files / "texts.txt").write_text("the fox\nbrown the\nquick\n")
    search = [f"--init_checkpoint={files / 'bert'}", f"--index_dir={files / 'index'}", "--pooling=cls"]
    printed = done_here(search_sentences, *search, f"--input_file={files / 'texts.txt'}")
    asked = ["--query=fox", f"--reranker={files / 'reranker'}", "--num_candidates=3", "--top_k=2"]
    printed = done_here(search_sentences, *search, *asked)
    (files / "more.txt").write_text("a fox\nthe fox\n")
    appended = done_here(search_sentences, *search, f"--input_file={files / 'more.txt'}", "--append")
    assert "5 texts" in appended.out
    assert len(VectorIndex.load(files / "index")) == 5
    ranked = reranker.rank("fox", ["the fox", "brown the", "quick"], top_k=2)
    assert printed.out.splitlines()[-3:] == ["fox", *(f"  {one.score:.4f}  {one.text}" for one in ranked)]
    printed = done_here(search_sentences, *search, "--query=quick", "--hybrid", "--top_k=1")
    assert printed.out.splitlines()[-1].endswith("quick")


@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")  # but for tf.data
def test_an_index_of_a_table_has_ids_and_filters_and_changes(files, run_here, done_here, eagerly, without_graphs):
    rows = [("d1", "the fox", "en", 1), ("d2", "brown the", "de", 2), ("d3", "quick", "en", 3), ("d4", "fox", "de", 3)]
    lines = [json.dumps(dict(zip(("id", "text", "language", "year"), row, strict=True))) + "\n" for row in rows]
    (files / "rows.jsonl").write_text("".join(lines))
    (files / "changed.tsv").write_text("id\ttext\nd3\tthe fox\n")
    search = [f"--init_checkpoint={files / 'bert'}", f"--index_dir={files / 'index'}"]
    columns = ["--text_column=text", "--id_column=id"]
    table = [f"--input_file={files / 'rows.jsonl'}", *columns, "--metadata_columns=language,year"]
    where = ["--query=the fox", "--where=language=en", "--top_k=9"]
    printed = done_here(search_sentences, *search, *table, *where)
    assert "index: 4 texts, vectors of 8 numbers" in printed.out
    assert [line.split()[1:] for line in printed.out.splitlines()[-2:]] == [["d1", "the", "fox"], ["d3", "quick"]]
    for more, message in ((["--update"], "index: 4 texts"), ([], "The index has the id 'd")):
        code, printed = run_here(search_sentences, *search, *table, "--append", *more)
        assert message in printed.out + printed.err
    (files / "ids.txt").write_text("d4\n")
    deleted = ["--delete=d1", f"--delete_file={files / 'ids.txt'}", *where]
    update = ["--update", f"--input_file={files / 'changed.tsv'}", *columns]
    printed = done_here(search_sentences, *search, *update, *deleted, "--where=year=3")
    assert [line.split()[1:] for line in printed.out.splitlines()[-1:]] == [["d3", "the", "fox"]]
    assert sorted(filter(None, VectorIndex.load(files / "index").ids)) == ["d2", "d3"]
    for wrong, message in [
        (["--query=a", "--where=year"], "A condition is written column=value. Received: 'year'"),
        (["--query=a", "--where=year=new"], "The column 'year' has whole numbers. Received: 'new'"),
        (["--delete=d1"], "The index has no text with the id 'd1'"),
    ]:
        code, printed = run_here(search_sentences, *search, *wrong)
        assert (code, message in printed.err) == (1, True), printed.err


@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")  # but for tf.data
def test_a_search_in_a_judged_collection_is_scored_in_one_table(
    files, run_here, done_here, refused_here, eagerly, without_graphs
):
    (files / "qrels").mkdir()
    (files / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\n")
    texts = {"d1": "brown the", "d2": "the fox", "d3": "quick"}
    lines = [json.dumps({"_id": name, "title": "", "text": text}) + "\n" for name, text in texts.items()]
    (files / "corpus.jsonl").write_text("".join(reversed(lines)))
    (files / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "the fox"}) + "\n")
    scoring = [f"--init_checkpoint={files / 'bert'}", f"--data_dir={files}", f"--index_dir={files / 'index'}", "--ks=1"]
    printed = done_here(evaluate_search, *scoring)
    assert printed.out.splitlines()[-5:] == [
        "score     search",
        *(f"{name + '@1':8}  1.0000" for name in ("ndcg", "mrr", "map", "recall")),
    ]
    assert "Queries: 1, each ranked against all documents: 3" in printed.out
    reranker = CrossEncoder.from_pretrained(files / "bert")
    reranker.new_parts.set_trained()
    reranker.save_pretrained(files / "reranker")
    printed = done_here(evaluate_search, *scoring, f"--reranker={files / 'reranker'}")  # reads the index
    assert "search  re-ranked" in printed.out
    late = MultiVectorEncoder.from_pretrained(files / "bert")
    late.new_parts.set_trained()
    late.save_pretrained(files / "colbert")
    more = ["--hybrid", f"--multi_vector_encoder={files / 'colbert'}", f"--reranker={files / 'colbert'}"]
    printed = done_here(evaluate_search, *scoring, *more)
    assert "score     search  multi-vector    BM25  hybrid  re-ranked" in printed.out
    printed = refused_here(evaluate_search, *scoring, "--max_seq_length=9")
    assert "was made with --max_seq_length=None. Received: 9" in printed.err
    for wrong in ("1,a", "0"):
        code, printed = run_here(evaluate_search, *scoring, f"--ks={wrong}")
        assert "ks must be a list of whole numbers of at least 1. Received: " in printed.err


def test_pairs_are_searched_by_words_over_a_corpus_of_their_own(files, done_here, refused_here):
    (files / "pairs.tsv").write_text("a fox\tthe quick fox\nlazy\ta lazy dog\n")
    (files / "more.tsv").write_text("\ta lazy lazy\nfox\ta lazy dog\n")
    pairs = [f"--pairs_file={files / 'pairs.tsv'}", "--nohas_header", "--text_columns=0,1", "--ks=1,2"]
    printed = done_here(evaluate_search, *pairs, f"--corpus_files={files / 'more.tsv'}")
    lines = printed.out.splitlines()
    assert lines[-10] == "Queries: 2, each ranked against all documents: 3"
    assert [line.split() for line in lines if "mrr" in line or "score" in line] == [
        ["score", "BM25"],
        ["mrr@1", "0.5000"],
        ["mrr@2", "0.7500"],
    ]
    for wrong, message in (
        (["--text_columns=0"], "Pairs have two columns: query and document. Received: 0"),
        (["--data_dir=beir"], "either --data_dir, a BEIR folder, or --pairs_file"),
        (["--hybrid"], "--hybrid has no effect without a model"),
        (["--index_dir=index"], "--index_dir has no effect without --init_checkpoint"),
        (["--split=dev"], "--split has no effect without --data_dir"),
        ([f"--corpus_files={files / 'none.tsv'}"], "none.tsv"),
        (["--text_columns=1,0", f"--corpus_files={files / 'more.tsv'}"], "line 1: the document in column '0' is empty"),
    ):
        printed = refused_here(evaluate_search, *pairs, *wrong)
        assert message in printed.err


@pytest.mark.slow
def test_a_few_texts_train_a_classifier(files, run_here, done_here, eagerly):
    arguments = ["--text_column=a", "--label_column=label", "--few_shot"]
    printed = done_here(run_classifier, *common(files, *arguments, "--do_predict"))
    assert "eval_accuracy" in (files / "run" / "eval_results.txt").read_text()
    assert SentenceClassifier.from_pretrained(RunFolder(files / "run").model_path).labels == ("dark", "fast")
    code, printed = run_here(run_classifier, *common(files, *arguments))
    assert "the training is finished" in printed.out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--text_columns=a,missing", "missing"),
        ("--text_columns=a,b --margin=1", "The loss in_batch_negatives has no --margin"),
        ("--text_columns=a,b --score_scale=5", "--score_scale has no effect without --score_column"),
        ("--text_columns=a,b --cross_encoder --pooling=cls", "--cross_encoder has no --pooling"),
        ("--text_columns=a,b --cross_encoder", "there is nothing to rank"),
        ("--text_columns=a", "nothing to learn from single texts"),
        ("--text_columns=a,b --loss=hinge", "one of: in_batch_negatives, gist_embed, "),
        ("--text_columns=a,b,c --loss=cosent --cross_encoder", "one of: binary_cross_entropy, "),
        (
            "--text_columns=a,b,c --score_column=label --loss=margin_mse",
            "column 'label' must be a number. Received: 'f",
        ),
        ("--text_columns=a,b,c,label --score_column=scores --loss=distill_kl_div", "3 in each example. Received: marg"),
        ("--text_columns=a,b --sampler=round_robin", "no effect without --more_data"),
        ("--few_shot --text_column=a --label_column=score --problem_type=regression", "one label per text"),
        ("--few_shot --text_column=a --label_column=label --lora_rank=2", "no --lora_rank"),
        ("--few_shot --text_column=a --second_text_column=b --label_column=label", "single texts. Received: pairs"),
    ],
)
def test_flags_that_do_not_fit_are_refused_in_one_line(flags, message, files, refused_here):
    command = run_classifier if "--few_shot" in flags else run_embeddings
    printed = refused_here(command, *common(files, *flags.split()))
    assert message in printed.err.splitlines()[-1]
