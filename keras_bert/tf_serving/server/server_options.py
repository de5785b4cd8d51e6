"""The options of a server."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Options of a server.

    Attributes:
        host: the address to listen on.
        port: 0 selects a free port.
        poll_seconds: the interval between searches for new versions; 0 searches once.
        model_config_file: a models.config that is read again every `config_poll_seconds`, unless that is 0.
        load_retry_seconds: the time after which a version that failed to load is tried again with unchanged files.
        join: makes what joins the requests of a signature, such as `keras_bert.serving.request_joining.RequestJoiner`,
            from its function that computes; None computes each request separately.
        num_threads: the number of requests, or of joined requests, computed at once.
        max_requests: the largest number of requests in progress.
        max_rows: the largest number of rows in a request.
        timeout_seconds: the time limit of a request.
        max_body_bytes: the limit for bodies, and for the contexts of a request's examples.
        body_seconds: the time limit for the arrival of a body.
        shutdown_seconds: the time limit for requests in progress when the server stops.
        allow_labels_for_unavailable: whether labels may name unavailable versions.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    poll_seconds: float = 1
    model_config_file: str | None = None
    config_poll_seconds: float = 0
    load_retry_seconds: float = 60
    join: Callable | None = None
    num_threads: int = 2
    max_requests: int = 1000
    max_rows: int = 10_000
    timeout_seconds: float = 30
    max_body_bytes: int = 64 << 20
    body_seconds: float = 60
    shutdown_seconds: float = 30
    allow_labels_for_unavailable: bool = False
