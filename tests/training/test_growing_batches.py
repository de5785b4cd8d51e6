"""Pre-training with a batch that grows: stages with one batch size each, and a learning rate that counts tokens."""

import os

import pytest
from optimization.test_optimization import copy_of
from pretraining_runs import RUN, assert_same_states, assert_same_weights, pretrain, train_until_killed

from keras_bert.optimization import GrowingBatchSchedule, WarmupLinearDecay
from keras_bert.program.errors import InputError
from keras_bert.training.callbacks import read_history
from keras_bert.training.optimizer_choice import OptimizerChoice
from keras_bert.training.pretraining_options import PretrainingRunOptions
from keras_bert.training.pretraining_phase import PretrainingPhase, stages_of

# 2 updates of 4 sequences, 2 of 8 and 5 of 16: as many sequences as 6 updates of 16, and a few more.
RUN = {**RUN, "num_train_steps": 6, "num_warmup_steps": 2, "batch_growth": (4, 8), "batch_growth_steps": 2}


def phase(**changes):
    numbers = {"num_train_steps": 100, "num_warmup_steps": 10, "train_batch_size": 16, "learning_rate": 1.0}
    return PretrainingPhase("short", **numbers | {"batch_growth": (4, 8), "batch_growth_steps": 20} | changes)


def test_stages_see_the_sequences_of_the_run_without_growth_in_more_updates():
    stages = stages_of([phase(), PretrainingPhase("long", 10, train_batch_size=8)])
    assert [(stage.batch_size, stage.start, stage.end) for stage in stages] == [
        (4, 0, 20),
        (8, 20, 40),
        (16, 40, 125),
        (8, 125, 135),
    ]
    assert 20 * 4 + 20 * 8 + 85 * 16 == 100 * 16
    assert [stage.train_files for stage in stages] == ["short"] * 3 + ["long"]


def test_the_records_go_on_where_the_batch_grows():
    stages = stages_of([phase(batch_growth_steps=3)])
    # 12 records, then 24: batch 2 of 8 begins at record 16, and batch 3 of 16 at record 48.
    assert [stage.first_batch for stage in stages] == [0, 2, 3]


def test_the_learning_rate_counts_sequences():
    plain = WarmupLinearDecay(1.0, 100, 10)
    schedule = GrowingBatchSchedule(plain, [4, 8, 16], 20)
    for step, sequences in [(0, 0), (3, 12), (20, 80), (25, 120), (40, 240), (41, 256), (90, 1040), (125, 1600)]:
        assert float(schedule(step)) == pytest.approx(float(plain(sequences / 16)), abs=1e-6), step
    assert float(copy_of(schedule)(25)) == float(schedule(25))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_growth": (8, 4)}, "batch_growth must be growing .* below train_batch_size=16. Received: 8, 4"),
        ({"batch_growth": (4, 16)}, "below train_batch_size=16. Received: 4, 16"),
        ({"batch_growth": (0, 4)}, r"at least 1. Received: \(0, 4\)"),
        ({"batch_growth_steps": 0}, r"need each other. Received: \[4, 8\] and 0"),
        ({"batch_growth": ()}, r"need each other. Received: \[\] and 20"),
        ({"batch_growth_steps": 134}, "grows for 1608 sequences, .* = 1600. Use fewer batch_growth_steps"),
    ],
)
def test_an_impossible_growth_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        phase(**changes)


def test_a_growth_that_parts_cannot_share_is_refused():
    growth = {"batch_growth": (6, 8), "batch_growth_steps": 1}
    with pytest.raises(InputError, match="A batch of 6 cannot be divided evenly among 1 device.*, 4 part"):
        PretrainingRunOptions(gradient_accumulation_steps=4, num_warmup_steps=1, **growth).phases("records")
    with pytest.raises(InputError, match="mem_len needs the same train_batch_size"):
        PretrainingRunOptions(mem_len=8, **growth).phases("records")


@pytest.mark.slow
def test_killed_in_any_stage_a_growing_run_ends_with_the_same_weights(records, tmp_path, monkeypatch, capsys):
    run = {**RUN, "optimizer": OptimizerChoice("muon", ema_momentum=0.8), "save_checkpoints_steps": 1}
    pretrain(tmp_path / "whole", records, **run)
    lines = {line["step"]: line for line in read_history(tmp_path / "whole" / "history.jsonl")}
    assert list(lines) == list(range(1, 10))  # updates, not tokens
    # After the updates of 4, 8, 16, 24 and 40 sequences; the peak 1e-2 is at 32 of 96 sequences.
    rates = [1e-2 * sequences / 32 for sequences in (4, 8, 16, 24)] + [1e-2 * (1 - 40 / 96)]
    assert [lines[step]["learning_rate"] for step in range(1, 6)] == pytest.approx(rates, rel=1e-5)
    assert "steps 4 to 9 with batches of 16" in capsys.readouterr().out

    for num_updates in (1, 2, 2, 3):
        train_until_killed(monkeypatch, num_updates, tmp_path / "killed", records, **run)
    pretrain(tmp_path / "killed", records, **run)
    assert_same_weights(tmp_path / "whole" / "model", tmp_path / "killed" / "model")
    assert_same_states(tmp_path / "whole", tmp_path / "killed", 9)

    with pytest.raises(InputError, match="batch_growth_steps was 2 and is now 1"):
        pretrain(tmp_path / "whole", records, **{**run, "batch_growth_steps": 1})
    pretrain(tmp_path / "whole", records, **run, extend_to=11)
    assert "step-00000011" in os.listdir(tmp_path / "whole" / "checkpoints")
