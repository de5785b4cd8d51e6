"""TensorFlow Serving's batching file, as an object and as a file."""

import pytest

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.batching_parameters import Batching, read_batching_file


def test_a_batching_file_reads_back_as_what_was_written(tmp_path):
    file = tmp_path / "batching.config"
    batching = Batching(
        max_batch_size=64,
        batch_timeout_micros=1,
        max_enqueued_batches=5,
        num_batch_threads=3,
        thread_pool_name="pool",
        enable_large_batch_splitting=True,
        max_execution_batch_size=64,
        allowed_batch_sizes=(8, 64),
        pad_variable_length_inputs=True,
    )
    for written in (batching, Batching()):
        file.write_text(written.text())
        assert read_batching_file(file) == written
    assert Batching().text() == "", "the server has these values without a file"
    assert "allowed_batch_sizes: 8\nallowed_batch_sizes: 64\n" in batching.text()


def test_the_largest_request_is_what_the_queue_takes_in_parts():
    options = {"max_batch_size": 8, "max_execution_batch_size": 2, "enable_large_batch_splitting": True}
    assert [Batching(**options, max_enqueued_batches=most).largest_request for most in (3, 4, 10)] == [6, 8, 8]
    assert Batching().largest_request == 1000


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"max_batch_size": 0}, "max_batch_size must be a whole number from 1"),
        ({"max_batch_size": 2**63}, "max_batch_size must be a whole number"),
        ({"max_batch_size": True}, "max_batch_size must be a whole number"),
        ({"batch_timeout_micros": -1}, "batch_timeout_micros must be a whole number from 0"),
        ({"max_enqueued_batches": 0}, "max_enqueued_batches"),
        ({"num_batch_threads": 1.5}, "num_batch_threads"),
        ({"thread_pool_name": ""}, "thread_pool_name"),
        ({"enable_large_batch_splitting": "yes"}, "enable_large_batch_splitting must be true or false"),
        ({"pad_variable_length_inputs": 1}, "pad_variable_length_inputs must be true or false"),
        ({"max_execution_batch_size": 4}, "is for enable_large_batch_splitting"),
        ({"enable_large_batch_splitting": True, "max_execution_batch_size": 65}, "at most max_batch_size, which is 64"),
        ({"allowed_batch_sizes": (16, 8, 32)}, "must grow"),
        ({"allowed_batch_sizes": (8, 8, 32)}, "must grow"),
        ({"allowed_batch_sizes": (8, 16)}, "The last of allowed_batch_sizes must be max_batch_size, 64"),
        ({"allowed_batch_sizes": (8,), "max_batch_size": 1000}, "must be max_batch_size, 1000"),
        (
            {"allowed_batch_sizes": (8, 64), "enable_large_batch_splitting": True, "max_execution_batch_size": 16},
            "must be max_batch_size too, 64",
        ),
    ],
)
def test_batching_that_a_server_refuses_is_refused(values, reason):
    with pytest.raises(InputError, match=reason):
        Batching(**{"max_batch_size": 64, **values})


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("max_batch_size: 8", "is not a BatchingParameters in protobuf's text format"),
        ("max_batch_size { value: 0 }", "batching.txt: max_batch_size must be a whole number from 1 .* Received: 0"),
        (None, "Cannot read"),
    ],
)
def test_a_wrong_batching_file_is_one_line(tmp_path, text, error):
    path = tmp_path / "batching.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=error):
        read_batching_file(str(path))
