import os
import signal

import pytest

from data_prep.text.ordered_map import ordered_map
from keras_bert.program.errors import InputError


@pytest.mark.parametrize("num_processes", [1, 2])
def test_results_come_in_the_order_of_the_items(num_processes):
    assert list(ordered_map(str, range(50), num_processes)) == [str(number) for number in range(50)]


@pytest.mark.parametrize("num_processes", [1, 2])
def test_items_are_taken_only_when_a_process_is_about_to_be_free(num_processes):
    taken = []
    results = ordered_map(str, (taken.append(number) or number for number in range(1000)), num_processes)
    assert next(results) == "0"
    assert len(taken) <= num_processes + 1
    results.close()


@pytest.mark.parametrize("num_processes", [1, 2])
def test_an_error_of_the_function_comes_through(num_processes):
    with pytest.raises(ValueError, match="invalid literal"):
        list(ordered_map(int, ["1", "x"], num_processes))


def _kill_on_three(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_killed_process_is_reported_in_one_line():
    with pytest.raises(InputError, match="A process was killed, most often for lack of memory"):
        list(ordered_map(_kill_on_three, range(10), 2))
