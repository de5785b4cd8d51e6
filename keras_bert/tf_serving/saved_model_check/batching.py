"""Traps between how a server joins requests and the requests that it gets, from clients and from its warm-up file.

TensorFlow Serving puts the batching around the session before it replays the warm-up file
(saved_model_bundle_factory.cc), and refuses a request of more rows than `max_batch_size`, with splitting too
(shared_batch_scheduler.h).
"""

from collections.abc import Iterator, Mapping, Sequence

from keras_bert.tf_serving.client.request_batches import ROWS_OF_A_REQUEST
from keras_bert.tf_serving.saved_model_check.report import ERROR, WARNING, Finding
from keras_bert.tf_serving.saved_model_check.signatures import shape_of

BATCHING_FILE = "batching file"


def check_batching(batching, signatures: Mapping, warm_up_rows: int) -> Iterator[Finding]:
    """Yields which requests a server with this batching refuses, and which answers it falsifies.

    Args:
        batching: a `Batching` of the kit, or a `BatchingOptions` of the development server.
        signatures: name -> SignatureDef.
        warm_up_rows: rows of the largest warm-up request, 0 for none.
    """
    most = batching.largest_request
    if warm_up_rows > most:
        yield Finding(
            ERROR,
            "batching-warm-up",
            BATCHING_FILE,
            f"It takes requests of {most} row(s) at most, and a warm-up request has {warm_up_rows}. Servers join "
            "requests before they warm up: the version does not load.",
            f"warm up with requests of at most {most} row(s), or raise max_batch_size to {warm_up_rows}.",
        )
    if most < ROWS_OF_A_REQUEST:
        yield Finding(
            WARNING,
            "batching-request",
            BATCHING_FILE,
            f"It takes requests of {most} row(s) at most, and the clients of this package send up to "
            f"{ROWS_OF_A_REQUEST}: these fail (Task size {ROWS_OF_A_REQUEST} is larger than maximum input batch size).",
            f"raise max_batch_size to {ROWS_OF_A_REQUEST}, or make clients with batch_size={most}.",
        )
    if batching.enable_large_batch_splitting:
        yield from _split_answers(signatures)


def has_one_width(shape: Sequence[int | None] | None) -> bool:
    """Whether the rows of an output have the same shape in every answer, so that parts of an answer can be joined.

    >>> has_one_width([None, 3]), has_one_width([-1]), has_one_width([None, None]), has_one_width(None)
    (True, True, False, False)
    """
    return shape is not None and not any(size in (None, -1) for size in shape[1:])


def _split_answers(signatures: Mapping) -> Iterator[Finding]:
    for name, signature in signatures.items():
        outputs = [key for key in sorted(signature.outputs) if not has_one_width(shape_of(signature.outputs[key]))]
        if outputs:
            yield Finding(
                ERROR,
                "batching-splitting",
                f"{BATCHING_FILE}, signature {name}, output {', '.join(map(repr, outputs))}",
                "With enable_large_batch_splitting, servers cut requests up and copy the parts of the answer together "
                "as if all had the width of the first (tensor::Concat), and here the width varies: answers are wrong, "
                "or the server crashes.",
                "leave enable_large_batch_splitting off, and set max_batch_size to the rows of the largest request.",
            )
