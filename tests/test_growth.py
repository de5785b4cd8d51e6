"""What the tables of memory and growth rest on, and a smoke run. No test here looks at a time."""

import subprocess
import sys

import pytest

from benchmarks import growing_work, growth, training_memory
from keras_bert.program.errors import InputError


def test_the_exponent_is_that_of_the_three_largest_sizes():
    assert growth.exponent([1, 2, 4, 8], [9.0, 1.0, 4.0, 16.0]) == pytest.approx(2)
    assert growth.exponent([10, 20], [3.0, 3.0]) == pytest.approx(0)
    assert growth.exponent([1, 2, 4], [1.0, 2.0**1.5, 2.0**3]) == pytest.approx(1.5)


def test_what_grows_faster_than_its_order_is_marked():
    found = growing_work.Growth("sorting", "cards", (10, 20, 40), 1, None)
    line = growth.row(found, found.sizes, [(1.0, 0), (4.0, 0), (16.0, 0)])
    assert line == "| sorting | cards | 10 20 40 | 1 | 1.00 s 4.00 s 16.00 s | **2.00** | 0 0 0 | - |"
    assert growth.judged(1.24, 1) == "1.24"


def test_memory_that_is_taken_and_given_back_is_seen():
    if not growth.resident("VmHWM"):
        pytest.skip("the system does not say how much memory a process has had")
    before = growth.memory_before()
    block = bytearray(b"x") * 50_000_000
    del block
    assert 40e6 < growth.resident("VmHWM") - before < 200e6


def test_made_up_text_grows_and_keeps_bringing_new_words(tmp_path, python_tokenizer):
    text = growing_work.GrowingText(str(tmp_path))
    small, large = text.words(20), text.words(40)
    assert large[: len(small)] == small
    assert len(" ".join(large)) == pytest.approx(40_000, rel=0.01)
    assert len(set(large)) > 1.2 * len(set(small))
    with open(text.write("one.txt", 20, 0)) as file:
        assert "\n\n" not in file.read()
    with open(text.write("many.txt", 20, 24)) as file:
        assert file.read().count("\n\n") == -(-len(small) // 12) // 2


@pytest.mark.parametrize("shape", ["8", "0x128", "8x1000", "x", "8x128x2"])
def test_a_shape_that_is_none_is_refused(shape):
    with pytest.raises(InputError, match="rows x tokens"):
        training_memory.shape_of(shape)


def test_the_table_of_memory_compares_with_ours():
    sides = {
        "ours": {"before": 1e9, "peak": 4e9, "seconds": 0.5},
        "transformers": {"before": 5e8, "peak": 3e9, "seconds": 2.0},
    }
    assert training_memory.table("base", 8, 128, sides) == [
        "| base | 8 x 128 | ours | 4,000 | 1,000 | 1.00 | 500 |",
        "| base | 8 x 128 | transformers | 3,000 | 500 | 0.75 | 2,000 |",
    ]
    assert training_memory.best_of([sides["ours"], sides["transformers"]])["seconds"] == 1.25


@pytest.mark.slow
def test_memory_is_measured_of_our_side_with_and_without_recomputation():
    command = [sys.executable, "-m", "benchmarks.training_memory", "--quick", "--sides=ours", "--steps=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("| smoke")]
    peak, before = (int(cell.replace(",", "")) for cell in line.split("|")[4:6])
    assert peak >= before > 50
