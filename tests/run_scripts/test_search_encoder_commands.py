"""`run_embeddings --sparse_encoder` and `--multi_vector_encoder`: models, losses, and what is refused in one line."""

import json

import numpy as np
import pytest
import scipy.sparse
from pyarrow import ipc
from tiny_checkpoints import random_checkpoint

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.tasks.multi_vector.losses import MaxSimDistillation, MaxSimInBatchNegatives
from keras_bert.tasks.sparse.losses import SpladeLoss
from run_scripts import embed_sentences, run_embeddings, search_sentences

ROWS = [
    ("the quick fox", "quick fox", "brown the", [2.0, 1.0], [1.0]),
    ("brown the", "the brown", "quick fox", [1, 0], [2.0]),
    ("fox", "the fox", "brown brown", [-2.0, 1.0], [0.0]),
    ("quick quick", "quickest", "the fox", [0, 2], [1.5, 1]),
]
NAMES = ("a", "b", "c", "scores", "uneven")
SPARSE, LATE = "--sparse_encoder", "--multi_vector_encoder"
MARKS = {"prompts": {"query": "[Q] ", "document": "[D] "}, "skiplist_words": ["brown", "zebra"]}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search_encoders")
    write_checkpoint(random_checkpoint(), folder / "bare", "huggingface")
    write_checkpoint(random_checkpoint(form.MASKED_LM), folder / "head", "huggingface")
    lines = [json.dumps(dict(zip(NAMES, row, strict=True))) for row in ROWS]
    for name in ("train", "dev", "test"):
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "texts.txt").write_text("the fox\nquick\n")
    (folder / "marks.json").write_text(json.dumps(MARKS))
    (folder / "colbert.json").write_text(json.dumps({**MARKS, "new_tokens": ["[Q]", "[D]"]}))
    return folder


def arguments_of(files, run, *arguments):
    run = [f"--init_checkpoint={files / 'head'}", f"--data_dir={files}", f"--output_dir={run}"]
    return [*run, "--do_train", "--do_eval", "--num_train_epochs=1", "--train_batch_size=2", *arguments]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "score", "pooling"),
    [
        ([SPARSE, "--document_regularizer_weight=0.01"], "document_active_dims", "SpladePooling of a SparseEncoder"),
        ([LATE, "--model_settings=colbert.json"], "mrr@10", "a vector for each token"),
    ],
)
def test_a_run_writes_a_model_its_scores_and_predictions(
    arguments, score, pooling, files, tmp_path, monkeypatch, run_here, done_here, refused_here, eagerly
):
    monkeypatch.chdir(files)
    arguments = arguments_of(files, tmp_path, *arguments, "--text_columns=a,b", "--keep_best")
    printed = done_here(run_embeddings, *arguments, "--do_predict")
    results = (tmp_path / "eval_results.txt").read_text()
    assert f"eval_{score}" in results
    assert "eval_ndcg@10" in results
    assert (tmp_path / "eval_report" / "report.txt").exists()
    model, scores = from_pretrained(None, tmp_path / "model"), np.loadtxt(tmp_path / "test_results.tsv")
    queries, documents = model.encode_query([row[0] for row in ROWS]), model.encode_document([row[1] for row in ROWS])
    np.testing.assert_allclose(scores, np.diag(model.similarity(queries, documents)), rtol=1e-4)
    if score == "document_active_dims":
        stored = scipy.sparse.load_npz(tmp_path / "test_vectors_2.npz")
        np.testing.assert_allclose(stored.toarray(), documents.toarray(), atol=1e-5)
        assert (tmp_path / "eval_report" / "misses.tsv").exists()
    code, printed = run_here(run_embeddings, *arguments)
    assert "the training is finished" in printed.out
    asked = [f"--init_checkpoint={tmp_path / 'model'}", f"--input_file={files / 'texts.txt'}"]
    printed = refused_here(search_sentences, *asked, "--query=fox")
    assert f"turns texts into vectors by '{pooling}'" in printed.err.splitlines()[-1]
    done_here(embed_sentences, *asked, f"--output_dir={tmp_path / 'vectors'}")
    (part,) = (tmp_path / "vectors").glob("part-*")
    columns = ["id", "indices", "values"] if score == "document_active_dims" else ["id", "vectors"]
    assert ipc.open_file(part).schema.names == columns


def test_flags_make_the_model_and_the_loss(files, tmp_path, monkeypatch, done_here):
    made = []
    monkeypatch.setattr("keras_bert.training.fine_tuning.fine_tune", lambda *args, **named: made.append((args, named)))
    monkeypatch.setattr("keras_bert.training.finished_runs.evaluate_run", lambda *args, **_: {})
    weights = ["--document_regularizer_weight=0.1", "--query_regularizer_weight=0", "--warmup_ratio=1", "--scale=2"]
    scored, settings = ["--text_columns=a,b,c", "--score_column=scores"], f"--model_settings={files / 'colbert.json'}"
    for arguments in (
        [SPARSE, "--text_columns=a,b", *weights, "--query_regularizer_threshold=5"],
        [SPARSE, *scored, "--warmup_ratio=0"],
        [SPARSE, "--text_columns=a,b,c", "--loss=margin_mse", "--teacher=t"],
        [LATE, "--text_columns=a,b", "--scale=2", settings],
        [LATE, *scored, "--temperature=3"],
        [LATE, "--text_columns=a,b,c", "--loss=distillation", "--teacher=t"],
        [LATE, "--text_columns=a,b"],
    ):
        done_here(run_embeddings, *arguments_of(files, tmp_path, *arguments))
    assert [args[2].loss for args, _ in made] == [
        SpladeLoss("in_batch_negatives", 0.1, 0.0, None, 5, 2.0, 1.0),
        SpladeLoss("margin_mse", warmup_ratio=0.0),
        SpladeLoss("margin_mse", teacher="t"),
        MaxSimInBatchNegatives(2.0),
        MaxSimDistillation(temperature=3.0),
        MaxSimDistillation(teacher="t"),
        None,
    ]
    assert [args[1].__name__ for args, _ in made] == ["SparseEncoder"] * 3 + ["MultiVectorEncoder"] * 4
    assert made[3][1]["model_arguments"] == MARKS
    assert made[3][1]["start"].new_tokens == ["[Q]", "[D]"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([SPARSE, "--init_checkpoint=bare"], "has no masked-LM head, from which a SparseEncoder takes the weights"),
        ([LATE, "--model_settings=marks.json"], "the mark '[Q]' is no token of the vocabulary"),
        ([LATE, '--model_settings={"skiplist_words": [3]}'], "skiplist_words must be a list of strings. Received: 3"),
        ([LATE, '--model_settings={"skip": []}'], "MultiVectorEncoder has no argument 'skip'. Possible are: dense, "),
        ([LATE, '--model_settings={"prompts": "[Q] "}'], "prompts must be an object"),
        ([SPARSE, "--text_columns=a,b,c", "--score_column=uneven"], "all examples must have scores, or all margins"),
        ([LATE, "--text_columns=a,b,c", "--score_column=uneven"], "all examples must have scores, or all margins"),
        ([LATE, "--text_columns=a,b,c,a", "--score_column=scores"], "must be 3 numbers for each query"),
        ([SPARSE, "--text_columns=a,b,c,a,b", "--score_column=scores"], "must be 4 numbers, one for each text after"),
        ([SPARSE, "--loss=cosent"], "loss must be a SpladeLoss or one of: in_batch_negatives, margin_mse. Received"),
        ([SPARSE, "--temperature=2"], "The loss in_batch_negatives has no --temperature"),
        ([LATE, "--warmup_ratio=0"], "The loss in_batch_negatives has no --warmup_ratio"),
        ([SPARSE, LATE], "A run trains one model. Received: --sparse_encoder and --multi_vector_encoder"),
        ([LATE, "--pooling=cls"], "--multi_vector_encoder has no --pooling"),
        ([LATE, "--text_columns=a"], "--multi_vector_encoder needs --text_columns=QUERY,TEXT or more. Received: a"),
        ([SPARSE, "--text_columns=a"], "nothing to learn from single texts"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(arguments, message, files, tmp_path, monkeypatch, refused_here):
    monkeypatch.chdir(files)
    for number, argument in enumerate(arguments):
        if argument.startswith("--model_settings={"):
            (tmp_path / "settings.json").write_text(argument.partition("=")[2])
            arguments = [*arguments[:number], f"--model_settings={tmp_path / 'settings.json'}"]
    printed = refused_here(run_embeddings, *arguments_of(files, tmp_path / "run", "--text_columns=a,b", *arguments))
    assert message in printed.err.splitlines()[-1]
