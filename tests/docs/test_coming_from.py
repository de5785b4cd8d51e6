"""The page for people who come from another BERT: its snippets run, and its commands and flags exist."""

import re

import pytest
from places import DOCS
from tiny_checkpoints import random_checkpoint

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.optimization import AdamW, WarmupLinearDecay, WarmupTrapezoid

PAGE = (DOCS / "coming_from.md").read_text("utf-8")
CHECKPOINTS = (DOCS / "checkpoints.md").read_text("utf-8")


@pytest.mark.slow
def test_the_snippets_run_one_after_the_other(eagerly, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_checkpoint(random_checkpoint(form.MASKED_LM, form.NEXT_SENTENCE), "bert-base-uncased", "huggingface")
    write_checkpoint(random_checkpoint(form.MASKED_LM, form.NEXT_SENTENCE), "uncased_L-12_H-768_A-12", "google")
    names = {}
    for program in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(program, "coming_from.md", "exec"), names)
    assert names["last_hidden_state"].shape == (1, 6, 8)
    assert read_checkpoint("for-google").heads == (form.MASKED_LM, form.NEXT_SENTENCE)
    printed = capsys.readouterr().out
    assert "['the', 'quickfox']" in printed  # a new token


def test_the_first_snippet_of_the_page_of_checkpoints_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("uncased_L-12_H-768_A-12", "path/to/folder", "all-MiniLM-L6-v2"):
        write_checkpoint(random_checkpoint(), folder, "google")
    first = re.search(r"```python\n(.*?)```", CHECKPOINTS, re.S)[1]
    exec(compile(first.replace("hf://sentence-transformers/", ""), "checkpoints.md", "exec"), {})
    assert (tmp_path / "elsewhere" / "model.safetensors").exists()


def optimizer_beside(call, **numbers):
    """The optimizer that the page names in the row of another library's call."""
    cell = call if "`" in call else f"`{call}`"
    (named,) = re.findall(rf"^\| {re.escape(cell)} \| `(AdamW\(.*?\))`;", PAGE, re.M)
    return eval(
        named, {"AdamW": AdamW, "WarmupLinearDecay": WarmupLinearDecay, "WarmupTrapezoid": WarmupTrapezoid}, numbers
    )


@pytest.mark.parametrize(
    ("call", "numbers", "constants", "rate"),
    [
        (  # transformers 4, optimization_tf.py: `WarmUp` around a decay that counts from the end of the warm-up
            "create_optimizer(lr, steps, warmup)",
            {"lr": 2e-5, "steps": 50, "warmup": 10},
            (0.0, 1e-8, None, True),
            lambda step: 2e-5 * (1 - min(step - 10, 40) / 40),
        ),
        (  # transformers 5.23: weight_decay 0, adam_epsilon 1e-8, max_grad_norm 1, `get_linear_schedule_with_warmup`
            "the optimizer of `TrainingArguments(lr, warmup_steps=warmup)`",
            {"lr": 2e-5, "steps": 50, "warmup": 10},
            (0.0, 1e-8, 1.0, True),
            lambda step: 2e-5 * max(0, 50 - step) / 40,
        ),
        (  # keras-bert 0.89, optimizers/warmup_v2.py: it keeps the peak for one more step after the warm-up
            "AdamWarmup(decay_steps, warmup_steps, lr=lr)",
            {"lr": 1e-4, "decay_steps": 50, "warmup_steps": 10},
            (0.0, 1e-7, None, True),
            lambda step: 1e-4 * (1 - min(step, 50) / 50),
        ),
    ],
)
def test_optimizers_of_other_libraries_have_our_arguments_beside_them(call, numbers, constants, rate):
    ours = optimizer_beside(call, **numbers)
    assert (ours.weight_decay, ours.epsilon, ours.global_clipnorm, ours.bias_correction) == constants
    theirs = [numbers["lr"] * step / 10 if step < 10 else rate(step) for step in range(60)]
    assert [float(ours._learning_rate(step)) for step in range(60)] == pytest.approx(theirs, rel=1e-5, abs=1e-12)
