"""TensorFlow Serving's batching file, as an object and as a file."""

import pytest

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.batching_parameters import Batching, read_batching_file


def test_the_largest_request_is_what_the_queue_takes_in_parts():
    options = {"max_batch_size": 8, "max_execution_batch_size": 2, "enable_large_batch_splitting": True}
    assert [Batching(**options, max_enqueued_batches=most).largest_request for most in (3, 4, 10)] == [6, 8, 8]
    assert Batching(max_batch_size=8, max_enqueued_batches=1).largest_request == 8


def test_a_batching_file_is_read(tmp_path):
    path = tmp_path / "batching.txt"
    path.write_text("max_batch_size { value: 8 }\nbatch_timeout_micros { value: 500 }\nallowed_batch_sizes: [2, 8]\n")
    options = read_batching_file(str(path))
    assert (options.max_batch_size, options.batch_timeout_micros, options.allowed_batch_sizes) == (8, 500, (2, 8))
    assert options.max_enqueued_batches == 10


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("max_batch_size: 8", "is not a BatchingParameters in protobuf's text format"),
        ("max_batch_size { value: 0 }", "max_batch_size must be a whole number from 1 to .* Received: 0"),
        ("allowed_batch_sizes: [8, 2]", "must grow from one to the next"),
        ("allowed_batch_sizes: 2", "The last of allowed_batch_sizes must be max_batch_size, 1000"),
        (
            "max_batch_size { value: 8 } enable_large_batch_splitting { value: true } "
            "max_execution_batch_size { value: 4 } allowed_batch_sizes: 4",
            "The last of allowed_batch_sizes must be max_batch_size, 8. Received: .4.",
        ),
        ("batch_timeout_micros { value: -1 }", "batch_timeout_micros must be a whole number from 0"),
        (None, "Cannot read"),
    ],
)
def test_a_wrong_batching_file_is_one_line(tmp_path, text, error):
    path = tmp_path / "batching.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=error):
        read_batching_file(str(path))
