"""The comparison of ways to search reads its data, trains and scores each way, and makes its table."""

import functools
import json
import pathlib

import keras
import pytest
import tiny
from absl import flags
from tiny_checkpoints import random_checkpoint

import keras_bert
from benchmarks import search_systems, search_table
from benchmarks.search_systems import SYSTEMS, Run, System
from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.program.errors import InputError

WORDS = [a + b for a in "abcde" for b in "fghij"]
SPLITS = {"train": range(12), "dev": range(12, 16), "test": range(16, 22)}


@pytest.fixture
def run(tmp_path):
    for split, numbers in SPLITS.items():
        rows = (f"package\t{WORDS[n]} {WORDS[n + 1]}\t{WORDS[n]} of {WORDS[n + 1]} and {WORDS[n + 2]}" for n in numbers)
        (tmp_path / f"debian_{split}.tsv").write_text("".join(f"{row}\n" for row in rows))
    return Run("", tmp_path, tmp_path / "output", 8, seed=1)


@pytest.fixture
def without_threads(monkeypatch):
    monkeypatch.setattr(search_table, "_limit_threads", lambda: None)


@pytest.fixture
def works(monkeypatch):
    """What was asked of processes, none of which is started."""
    found = []
    monkeypatch.setattr(search_table, "_work", lambda part, name, run: found.append((part, name, run.seed)))
    monkeypatch.setattr(search_table, "FLAGS", flags.FlagValues())
    flags.DEFINE_boolean("again", False, "", flag_values=search_table.FLAGS)
    search_table.FLAGS(["command"])
    return found


def test_a_seed_chooses_its_pairs_and_each_query_finds_its_own_description(run):
    synopses, descriptions = run.training_pairs()
    assert len(set(synopses)) == len(synopses) == 8
    assert all(
        description.startswith(synopsis[:2]) for synopsis, description in zip(synopses, descriptions, strict=True)
    )
    other = Run("", run.data, run.output_dir, 8, seed=2)
    assert other.training_pairs() != run.training_pairs() == run.training_pairs()
    assert run.corpus()[:6] == [description for _, description in run.pairs("test")]
    assert len(set(run.corpus())) == 22


def test_the_scores_are_those_of_the_rankings(run, monkeypatch, without_threads):
    queries = [query for query, _ in run.pairs("test")]
    rank = System(lambda run: (lambda query: [queries.index(query) // 2 * 2, 1, 3, 5], 7.0))
    monkeypatch.setitem(SYSTEMS, "dense", rank)
    run.folder("dense").mkdir(parents=True)
    search_table.score(run, "dense")
    found = json.loads((run.folder("dense") / "scores.json").read_text())
    assert found["recall@100"] == 1.0
    # First are three of six; the others have the ranks 2, 3 and 4.
    assert found["ndcg@10"] == pytest.approx((3 + 0.630930 + 0.5 + 0.430677) / 6, abs=1e-5)
    assert (found["bytes"], found["milliseconds"] > 0) == (7.0, True)
    assert search_table.read_scores(run.output_dir)["dense"] == [found]


def test_what_is_finished_is_not_repeated(run, works):
    search_table.finish(run, "BM25")
    search_table.finish(run, "dense")
    assert works == [("score", "BM25", 1), ("train", "dense", 1), ("score", "dense", 1)]
    works.clear()
    (run.folder("dense") / "model").mkdir(parents=True)
    search_table.finish(run, "dense")
    assert works == [("score", "dense", 1)]
    works.clear()
    (run.folder("dense") / "scores.json").touch()
    search_table.finish(run, "dense")
    assert works == []
    search_table.FLAGS.again = True
    search_table.finish(run, "dense")
    assert works == [("score", "dense", 1)]


def test_a_way_that_needs_another_model_says_so(run, works):
    with pytest.raises(InputError, match="needs the model of dense, seed 1. Give --systems=dense,multi-vector"):
        search_table.finish(run, "multi-vector")


@pytest.mark.slow
def test_every_way_is_trained_and_ranks_the_corpus(run, monkeypatch, without_threads):
    vocabulary = tiny.vocabulary("[unused0] [unused1] of and", *tiny.pieces())
    config = tiny.config(vocabulary, max_position_embeddings=80)
    model = str(run.data / "model")
    write_checkpoint(random_checkpoint(config=config, vocabulary=vocabulary), model)
    for name, value in {"HEAD_STEPS": 2, "LISTS": 8, "NEGATIVES": 1, "BATCH_SIZE": 4}.items():
        monkeypatch.setattr(search_systems, name, value)
    # A model with random weights finds all texts similar.
    mine = functools.partial(keras_bert.mine_hard_negatives, relative_margin=0.0)
    monkeypatch.setattr(keras_bert, "mine_hard_negatives", mine)
    tiny_run = Run(model, run.data, run.output_dir, 8, seed=1)
    for name, system in SYSTEMS.items():
        folder: pathlib.Path = tiny_run.folder(name)
        if system.train:
            keras.utils.set_random_seed(1)
            system.train(tiny_run).save_pretrained(folder / "model")
        folder.mkdir(parents=True, exist_ok=True)
        rank, num_bytes = system.ranker(tiny_run)
        query = tiny_run.pairs("test")[0][0]
        assert len(rank(query)) == (22 if name != "BM25" else len(set(rank(query)))), name
        assert num_bytes > 0
        again, _ = system.ranker(tiny_run)  # from stored vectors
        assert again(query) == rank(query)
