"""The options of a server."""

import dataclasses
from collections.abc import Callable

from keras_bert.program.option_flags import documented, option


@documented
@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """The options of a server.

    Attributes:
        join: makes what joins the requests of a signature, such as `keras_bert.serving.request_joining.RequestJoiner`,
            from its function that computes; None computes each request separately.
        load_export: function of an exported folder, one with `export.json`, that returns a model with the interface of
            `ServedModel`, such as `keras_bert.serving.portable.served_export.ServedExport`; None serves SavedModels
            only.
        timeout_seconds: the time limit of a request.
    """

    host: str = option("127.0.0.1", "The address to listen on. 0.0.0.0 admits other machines.")
    port: int = option(8501, "The port of REST and the page. 0 selects a free port.", lower_bound=0, upper_bound=65535)
    poll_seconds: float = option(
        1,
        "Seconds between searches for new versions. 0 searches once.",
        flag="file_system_poll_wait_seconds",
        lower_bound=0,
    )
    model_config_file: str | None = option(None, "TensorFlow Serving's models.config, instead of folders.")
    config_poll_seconds: float = option(
        0,
        "Seconds between readings of model_config_file. 0 reads it once.",
        flag="model_config_file_poll_wait_seconds",
        lower_bound=0,
    )
    load_retry_seconds: float = option(
        60, "Seconds before a failed version is tried again with unchanged files.", lower_bound=0
    )
    join: Callable | None = None
    load_export: Callable | None = None
    num_threads: int = option(2, "Requests, or batches, computed at once.", lower_bound=1)
    max_requests: int = option(1000, "Requests in progress at once; more are refused.", lower_bound=1)
    max_rows: int = option(10_000, "The largest number of rows in a request.", lower_bound=1)
    timeout_seconds: float = 30
    max_body_bytes: int = option(
        64 << 20, "The largest request in bytes, and the limit for the contexts of its examples.", lower_bound=1
    )
    body_seconds: float = option(60, "The time limit for the arrival of a request.", lower_bound=0.001)
    shutdown_seconds: float = option(30, "The time limit for requests in progress at the end.", lower_bound=0)
    allow_labels_for_unavailable: bool = option(
        False,
        "Whether labels may name versions that are not loaded.",
        flag="allow_version_labels_for_unavailable_models",
    )
