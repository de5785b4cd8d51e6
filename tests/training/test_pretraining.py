"""The pre-training run on tiny records that can be learnt: it learns, resumes after a kill, writes Google's files."""

import json
import os
import pathlib
import re

import numpy as np
import pytest
import tiny
from pretraining_runs import RUN, assert_same_weights, pretrain, train_until_killed, weights_of
from tiny_pretraining import CONFIG, VOCABULARY, write_records

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.training.callbacks import TIMED, read_history
from keras_bert.training.pretraining import evaluate_pretrainer
from keras_bert.training.pretraining_evaluation import PretrainingEvaluation
from keras_bert.training.pretraining_phase import PretrainingPhase
from run_scripts import run_pretraining

METRICS = ("loss", *BertPretrainer.loss_names, *BertPretrainer.metric_names)
SHORT = {"num_train_steps": 2, "num_warmup_steps": 1}


@pytest.fixture(scope="module")
def finished(records, tmp_path_factory):
    """The folder of a finished run with the settings `RUN`. Tests that write into it must not disturb other tests."""
    path = tmp_path_factory.mktemp("finished") / "run"
    pretrain(path, records, **RUN)
    return path


def test_a_run_writes_what_it_promises(finished):
    names = {"checkpoints", "facts.json", "history.jsonl", "model", "record_index.npz", "run.json"}
    assert {path.name for path in finished.iterdir()} - {"learning_curves.png", "eval_results.txt"} == names
    assert sorted(path.name for path in (finished / "checkpoints").iterdir()) == ["step-00000008", "step-00000012"]
    history = read_history(finished / "history.jsonl")
    assert [line["step"] for line in history] == list(range(1, 13))
    assert set(METRICS) < set(history[0])
    assert history[0]["masked_lm_loss"] == pytest.approx(np.log(len(VOCABULARY)), abs=0.2)
    assert history[-1]["learning_rate"] == 0.0


def test_evaluation_writes_googles_file(records, finished, capsys):
    results = evaluate_pretrainer(finished, records, eval_batch_size=10, max_eval_steps=100)
    text = (finished / "eval_results.txt").read_text()
    lines = dict(line.split(" = ") for line in text.splitlines())
    assert list(lines) == sorted([*METRICS, "global_step"])
    assert lines["global_step"] == "12"
    assert {name: float(value) for name, value in lines.items()} == results
    assert results["loss"] == pytest.approx(results["masked_lm_loss"] + results["next_sentence_loss"], rel=1e-5)
    assert text in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_that_makes_its_masks_ends_with_the_same_weights_when_killed(tmp_path, monkeypatch):
    path = write_records(tmp_path / "train.tfrecord", masked=False)
    run = {**RUN, "masking": {"masked_lm_prob": 0.3}, "masked_lm_prob_end": 0.1}
    train_until_killed(monkeypatch, 6, tmp_path / "killed", path, **run)
    pretrain(tmp_path / "killed", path, **run)
    pretrain(tmp_path / "whole", path, **run)
    assert_same_weights(tmp_path / "whole" / "model", tmp_path / "killed" / "model")
    with pytest.raises(InputError, match=r"masking was \{'masked_lm_prob': 0.3\} and is now None"):
        pretrain(tmp_path / "whole", path, **RUN)
    first, again = (evaluate_pretrainer(tmp_path / "whole", path) for _ in range(2))
    assert first == again


def test_masks_cannot_be_made_without_a_vocabulary_nor_twice(records, tmp_path):
    path = write_records(tmp_path / "train.tfrecord", masked=False)
    with pytest.raises(InputError, match=r"train\.tfrecord: its records have no masks"):
        pretrain(tmp_path / "run", path, **{**RUN, "vocabulary": None})
    with pytest.raises(InputError, match="its records have masks, so masked_lm_prob would have no effect"):
        pretrain(tmp_path / "run", records, **RUN, masking={"masked_lm_prob": 0.3})
    BertPretrainer(CONFIG).save_pretrained(tmp_path / "start")
    with pytest.raises(InputError, match=r"train\.tfrecord: its records have no masks"):
        evaluate_pretrainer(tmp_path / "out", path, init_checkpoint=tmp_path / "start")
    evaluate_pretrainer(tmp_path / "out", path, init_checkpoint=tmp_path / "start", vocabulary=VOCABULARY)


def test_several_steps_in_one_execution_make_the_same_updates(records, finished, tmp_path):
    pretrain(tmp_path / "five", records, **RUN, steps_per_execution=5)
    for one, other in zip(weights_of(finished / "model"), weights_of(tmp_path / "five/model"), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert [line["step"] for line in read_history(tmp_path / "five" / "history.jsonl")] == [5, 10, 12]


def test_a_finished_run_is_not_trained_again(records, finished):
    before = (finished / "history.jsonl").read_text()
    pretrain(finished, records, **RUN)
    assert (finished / "history.jsonl").read_text() == before


def test_training_starts_from_a_model_folder(eagerly, records, tmp_path):
    BertPretrainer(CONFIG).save_pretrained(tmp_path / "start", VOCABULARY)
    arguments = {**RUN, **SHORT, "config": None, "vocabulary": None, "learning_rate": 0.0}
    model = pretrain(tmp_path / "run", records, init_checkpoint=tmp_path / "start", **arguments)
    assert_same_weights(tmp_path / "start", tmp_path / "run" / "model")
    assert model.vocabulary.tokens == VOCABULARY.tokens


def test_a_model_folder_is_evaluated_without_training(records, tmp_path):
    BertPretrainer(CONFIG).save_pretrained(tmp_path / "start", VOCABULARY)
    results = evaluate_pretrainer(tmp_path / "out", records, init_checkpoint=tmp_path / "start")
    assert results["global_step"] == 0
    assert results["masked_lm_loss"] == pytest.approx(np.log(len(VOCABULARY)), abs=0.2)


def test_tensorboard_gets_the_metrics_at_their_steps(eagerly, records, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    pretrain(tmp_path / "run", records, **{**RUN, **SHORT}, tensorboard=True)
    events = accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard"), size_guidance={"tensors": 0})
    events.Reload()
    assert set(METRICS) | {"learning_rate", "gradient_norm", *TIMED} == set(events.Tags()["tensors"])
    assert [event.step for event in events.Tensors("loss")] == [1, 2]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("", "is not empty and holds no run to continue .*Remove it or give another"),
        ("letter.txt", "is a file"),
        ("letter.txt/run", "a part of the path is a file, not a folder"),
    ],
)
def test_an_output_folder_that_is_something_else_is_refused(place, message, records, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match=message):
        pretrain(tmp_path / place, records, **RUN)
    assert os.listdir(tmp_path) == ["letter.txt"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": None}, "Give a config"),
        ({"vocabulary": Vocabulary(VOCABULARY.tokens[:-1])}, "The vocabulary has 12 tokens but"),
        ({"config": CONFIG.replace(vocab_size=10), "vocabulary": None}, "vocab_size=10"),
        ({"config": CONFIG.replace(max_position_embeddings=9)}, "more than this model's 9 positions"),
        ({"max_seq_length": 128}, "input_ids has 10 numbers in its records, but 128 are expected"),
        (
            {"config": CONFIG.replace(hidden_size=32), "init_checkpoint": "start"},
            "hidden_size is 32 and 16. Leave the c",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(records, tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    if "init_checkpoint" in changes:
        BertPretrainer(CONFIG).save_pretrained("start", VOCABULARY)
    with pytest.raises(InputError, match=message):
        pretrain("run", records, **{**RUN, **changes})
    with pytest.raises(InputError, match="has no trained model. Finish its training"):
        evaluate_pretrainer("run", records)


def test_records_of_another_vocabulary_are_refused(records, finished, tmp_path, refused_here):
    def records_of(vocabulary, name):
        path = tmp_path / name / "a.tfrecord"
        path.parent.mkdir()
        path.write_bytes(pathlib.Path(records).read_bytes())
        manifest = {"request": {"vocabulary_sha256": vocabulary.sha256}, "files": [{"name": "a.tfrecord"}]}
        (path.parent / "manifest.json").write_text(json.dumps(manifest))
        return str(path)

    same = records_of(VOCABULARY, "same")
    other = records_of(Vocabulary([*VOCABULARY.tokens[:5], *reversed(VOCABULARY.tokens[5:])]), "other")
    message = rf"^{other}: its records were made with another vocabulary, as {tmp_path}/other/manifest.json says"
    from_checkpoint = {**RUN, "config": None, "vocabulary": None, "init_checkpoint": finished / "model"}
    for files, changes in [
        (other, {}),
        ([records, same, other], {}),
        (other, from_checkpoint),
        (same, {"second_phase": PretrainingPhase(other, 4)}),
        (same, {"keep_best": PretrainingEvaluation(other)}),
    ]:
        with pytest.raises(InputError, match=message):
            pretrain(tmp_path / "run", files, **{**RUN, **changes})
    with pytest.raises(InputError, match=message):
        evaluate_pretrainer(tmp_path / "run", other, init_checkpoint=finished / "model")
    reordered = Vocabulary(VOCABULARY.tokens[::-1])
    with pytest.raises(InputError, match="The given vocabulary is not that of"):
        evaluate_pretrainer(finished, same, vocabulary=reordered)
    # Before the training, instead of hours later.
    common = ["--do_train", f"--output_dir={tmp_path}/new", *tiny.flags_from_scratch(tmp_path, VOCABULARY, CONFIG)]
    common += ["--num_train_steps=1", "--num_warmup_steps=0"]
    common += ["--do_eval", f"--input_file={same}", f"--eval_input_file={other}"]
    printed = refused_here(run_pretraining, *common)
    assert re.search(message.replace("^", "^error: "), printed.err, re.M)
    assert "Traceback" not in printed.err
    assert not (tmp_path / "new").exists()


def test_damage_met_on_the_way_is_one_line_that_names_the_file(finished, tmp_path):
    path = tmp_path / "train.tfrecord"
    data = pathlib.Path(write_records(path, num_records=400)).read_bytes()
    # Without shuffling, or in the first epoch: between the middle and the end.
    path.write_bytes(data[: len(data) * 3 // 4] + b"damage" + data[len(data) * 3 // 4 + 6 :])
    for use in (
        lambda: pretrain(tmp_path / "run", str(path), **{**RUN, "num_train_steps": 60}),
        lambda: evaluate_pretrainer(finished, str(path)),
    ):
        with pytest.raises(InputError, match=r"train\.tfrecord: record \d+ [^\n]* again\.$"):
            use()


def test_the_commands_masking_flags_are_for_records_without_masks(records, tmp_path, run_here, done_here, eagerly):
    unmasked = write_records(tmp_path / "unmasked.tfrecord", masked=False)
    flags = [f"--input_file={unmasked}", f"--eval_input_file={records}", f"--output_dir={tmp_path / 'run'}"]
    flags += [*tiny.flags_from_scratch(tmp_path, VOCABULARY, CONFIG), "--do_train", "--do_eval"]
    flags += ["--num_train_steps=2", "--num_warmup_steps=1", "--do_whole_word_mask", "--masked_lm_prob=0.4"]
    printed = done_here(run_pretraining, *flags)
    assert "masked_lm_loss" in printed.out
    settings = json.loads((tmp_path / "run" / "run.json").read_text())
    assert settings["masking"] == {"masked_lm_prob": 0.4, "do_whole_word_mask": True}
    assert settings["max_predictions_per_seq"] == 4

    # Before the training, instead of hours later.
    code, printed = run_here(run_pretraining, flags[0], "--eval_input_file=none.tfrecord", *flags[2:])
    assert (code, "error: No file matches none.tfrecord" in printed.err) == (1, True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--do_eval"], "No file matches none.tfrecord"),
        ([], "Nothing to do. Give --do_train, --do_eval or both."),
        (["--do_train", "--keep_best"], "--keep_best and --eval_steps need records that the model is not trained on"),
        (["--do_train", "--size=tiny", "--bert_config_file=x.json", "--vocab_file=v"], "Give one of them"),
        (["--do_train", "--size=tiny"], "--size has no effect without --vocab_file"),
        (["--do_train", "--size=tiny", "--vocab_file=v", "--init_checkpoint=m"], "unless the model is new"),
    ],
)
def test_the_command_says_what_is_wrong_in_one_line(flags, message, tmp_path, refused_here):
    printed = refused_here(run_pretraining, "--input_file=none.tfrecord", f"--output_dir={tmp_path}", *flags)
    assert printed.err.strip().splitlines()[-1].startswith("error: ")
    assert message in printed.err
    assert "Traceback" not in printed.err


def test_a_published_size_needs_no_config_file(tmp_path, done_here):
    write_records(tmp_path / "a.tfrecord")
    VOCABULARY.save(tmp_path / "vocab.txt")
    files = [f"--input_file={tmp_path}/a.tfrecord", f"--vocab_file={tmp_path}/vocab.txt", "--do_train"]
    steps = ["--num_train_steps=1", "--num_warmup_steps=0", "--train_batch_size=4"]
    done_here(run_pretraining, *files, *steps, "--size=tiny", f"--output_dir={tmp_path}/run")
    config = BertConfig.from_json_file(tmp_path / "run" / "model" / "bert_config.json")
    assert config.replace(extra={}) == BertConfig.from_size("tiny", len(VOCABULARY))
