"""The ablations of pre-training: cells are made of features, finished ones are kept, and the table compares them."""

from types import SimpleNamespace

import loaded_commands
import pytest

from benchmarks import ablations
from benchmarks.ablations import BASE, BATCH, FEATURES, ROW, read_results
from keras_bert.program.errors import InputError
from keras_bert.training.pretraining_phase import PretrainingPhase, stages_of

STEPS = 32  # the growing batch has whole batches then


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty output folder, with flags for tiny models."""
    sizes = {"text_bytes": 100_000, "hidden_size": 32, "num_layers": 1, "num_train_steps": STEPS}
    given = SimpleNamespace(text=f"{tmp_path}/text.txt", task=f"{tmp_path}/task", **sizes)
    monkeypatch.setattr(ablations, "FLAGS", given)
    return tmp_path / "output"


@pytest.mark.parametrize("name", FEATURES)
def test_all_cells_train_on_the_same_number_of_tokens(name, folder):
    pretraining, _ = ablations.cell_flags(folder, FEATURES[name], 1)
    given = dict(flag.removeprefix("--").split("=") for flag in pretraining if "=" in flag)
    growth = tuple(int(size) for size in given.get("batch_growth", "").split(",") if size)
    growing = {"batch_growth": growth, "batch_growth_steps": int(given.get("batch_growth_steps", 0))}
    phase = PretrainingPhase("", int(given["num_train_steps"]), 0, BATCH, **growing)
    num_rows = sum((stage.end - stage.start) * stage.batch_size for stage in stages_of([phase]))
    long_rows = int(given.get("num_train_steps_phase2", 0)) * int(given.get("train_batch_size_phase2", 0))
    assert num_rows * ROW + long_rows * 2 * ROW == STEPS * BATCH * ROW


def test_a_finished_cell_is_kept_and_an_interrupted_one_begins_anew(folder, monkeypatch):
    commands = []

    def pretend(log, module, *arguments):
        commands.append(module)
        written = folder / "cell" / module.removeprefix("run_scripts.run_")
        written.mkdir(parents=True)
        (written / "eval_results.txt").write_text("eval_accuracy = 0.75\nmasked_lm_loss = 5.5\n")
        return 7.0

    monkeypatch.setattr(ablations, "_run", pretend)
    monkeypatch.setattr(ablations, "text_line", lambda data: "A text.")
    (folder / "cell" / "pretraining" / "checkpoints").mkdir(parents=True)
    ablations.finish(folder, BASE, 1)
    ablations.finish(folder, BASE, 1)
    ablations.finish(folder, "Muon", 1)
    assert commands == ["run_scripts.run_pretraining", "run_scripts.run_classifier"] * 2
    kept = {"feature": BASE, "seed": 1, "loss": 5.5, "accuracy": 75.0, "seconds": 7.0}
    assert read_results(folder) == [kept, kept | {"feature": "Muon"}]
    assert "| Muon | 1 | 5.500 (5.500 to 5.500) | +0.000 |" in (folder / "table.md").read_text()


def test_the_table_says_which_features_are_beyond_the_seeds_and_who_wins():
    losses = [(BASE, 5.0), (BASE, 5.2), ("StableAdamW", 5.05), ("StableAdamW", 5.3), ("Muon", 4.7), ("Muon", 4.9)]
    results = [{"feature": name, "loss": loss, "accuracy": 60 + 10 * loss, "seconds": 2} for name, loss in losses]
    assert ablations.result_lines(results)[2:] == [
        "| base | 2 | 5.100 (5.000 to 5.200) |  | 111.0 (110.0 to 112.0) |  | 2 |",
        "| StableAdamW | 2 | 5.175 (5.050 to 5.300) | +0.075, within | 111.8 (110.5 to 113.0) | +0.8, within | 2 |",
        "| Muon | 2 | 4.800 (4.700 to 4.900) | -0.300, beyond | 108.0 (107.0 to 109.0) | -3.0, beyond | 2 |",
        "",
        "Lowest loss: Muon. Highest accuracy: StableAdamW.",
    ]


def test_results_of_other_sizes_and_failing_commands_are_refused(folder, tmp_path):
    ablations.check_settings(folder)
    ablations.FLAGS.num_layers = 2
    with pytest.raises(InputError, match="those of other flags"):
        ablations.check_settings(folder)
    with pytest.raises(InputError, match="no_such_command ended with 1: see .*log"):
        ablations._run(tmp_path / "log", "benchmarks.no_such_command")


@pytest.mark.slow
def test_two_cells_run_from_a_text_to_the_table(folder, tmp_path, monkeypatch):
    def run(log, module, *arguments):
        done = loaded_commands.run(module, *arguments)
        assert done.returncode == 0, done.stderr
        return 1.0

    monkeypatch.setattr(ablations, "_run", run)
    words = [2 * (a + b) for a in "abcdefgh" for b in "ijklm"]
    documents = ["".join(f"{' '.join(words[n % 30 : n % 30 + 9])}.\n" for n in range(k, k + 9)) for k in range(40)]
    (tmp_path / "task").mkdir()
    (tmp_path / "text.txt").write_text("\n".join(documents))
    for part in ("train", "dev"):
        (tmp_path / "task" / f"{part}.tsv").write_text("sentence\tlabel\naiai bibi\t0\ncici didi\t1\n")
    ablations.check_settings(folder)
    ablations.prepare(folder)
    ablations.finish(folder, BASE, seed=3)
    ablations.finish(folder, "second phase", seed=3)
    table = (folder / "table.md").read_text()
    assert "tokens; each cell trains on 16,384" in table
    assert all(2 < result["loss"] < 6 and result["accuracy"] in (0, 50, 100) for result in read_results(folder))
