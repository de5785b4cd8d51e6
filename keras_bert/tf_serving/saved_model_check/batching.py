"""Checks that a server's batching fits the requests from clients and from the warm-up file.

TensorFlow Serving sets up batching before it replays the warm-up file (saved_model_bundle_factory.cc). It refuses
requests with more rows than `max_batch_size`, even with splitting (shared_batch_scheduler.h).
"""

from collections.abc import Iterator, Mapping, Sequence

from keras_bert.tf_serving.client.request_batches import ROWS_OF_A_REQUEST
from keras_bert.tf_serving.saved_model_check.padding import unsafe_inputs
from keras_bert.tf_serving.saved_model_check.report import Finding, error, warning
from keras_bert.tf_serving.saved_model_check.signatures import shape_of

BATCHING_FILE = "batching file"


def check_batching(batching, signatures: Mapping, warm_up_rows: int) -> Iterator[Finding]:
    """Yields findings about requests that a server with this batching refuses, and about answers that it falsifies.

    Args:
        batching: the server's `Batching`.
        signatures: name -> SignatureDef.
        warm_up_rows: the number of rows of the largest warm-up request, 0 without warm-up.
    """
    most = batching.largest_request
    if warm_up_rows > most:
        yield error(
            "batching-warm-up",
            BATCHING_FILE,
            f"It accepts requests of at most {most} row(s), but a warm-up request has {warm_up_rows}. Servers set up "
            "batching before they warm up, so the version does not load.",
            f"warm up with requests of at most {most} row(s), or raise max_batch_size to {warm_up_rows}.",
        )
    if most < ROWS_OF_A_REQUEST:
        yield warning(
            "batching-request",
            BATCHING_FILE,
            f"It accepts requests of at most {most} row(s), but the clients of this package send up to "
            f"{ROWS_OF_A_REQUEST}: these fail (Task size {ROWS_OF_A_REQUEST} is larger than maximum input batch size).",
            f"raise max_batch_size to {ROWS_OF_A_REQUEST}, or make clients with batch_size={most}.",
        )
    if batching.enable_large_batch_splitting:
        yield from _split_answers(signatures)
    if batching.pad_variable_length_inputs:
        yield from _padded_inputs(signatures)


def has_one_width(shape: Sequence[int | None] | None) -> bool:
    """Returns whether the rows of an output always have the same shape, so that parts of an answer can be joined.

    >>> has_one_width([None, 3]), has_one_width([-1]), has_one_width([None, None]), has_one_width(None)
    (True, True, False, False)
    """
    return shape is not None and not any(size in (None, -1) for size in shape[1:])


def _split_answers(signatures: Mapping) -> Iterator[Finding]:
    for name, signature in signatures.items():
        outputs = [key for key in sorted(signature.outputs) if not has_one_width(shape_of(signature.outputs[key]))]
        if outputs:
            yield error(
                "batching-splitting",
                f"{BATCHING_FILE}, signature {name}, output {', '.join(map(repr, outputs))}",
                "With enable_large_batch_splitting, servers split requests and join the parts of the answer as if all "
                "had the width of the first (tensor::Concat). The width of this output varies, so answers are wrong, "
                "or the server crashes.",
                "leave enable_large_batch_splitting off, and set max_batch_size to the rows of the largest request.",
            )


def _padded_inputs(signatures: Mapping) -> Iterator[Finding]:
    for name, signature in signatures.items():
        if unsafe := unsafe_inputs(signature):
            yield error(
                "batching-padding",
                f"{BATCHING_FILE}, signature {name}, input {', '.join(map(repr, unsafe))}",
                "With pad_variable_length_inputs, servers fill short rows with the first value of the tensor, and "
                "nothing says where a row ends: answers are wrong, without an error.",
                "leave pad_variable_length_inputs off.",
            )
