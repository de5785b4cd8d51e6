"""The options of a server."""

import dataclasses

from keras_bert.program.options import Options, documented, option


@documented
@dataclasses.dataclass(frozen=True)
class ServerOptions(Options):
    """The options of a server.

    Attributes:
        timeout_seconds: the time limit of an answer.
    """

    host: str = option("127.0.0.1", "The address to listen on. 0.0.0.0 admits other machines.")
    port: int = option(8501, "The port of REST and the page. 0 selects a free port.", at_least=0, at_most=65535)
    num_threads: int = option(2, "Requests computed at once.", at_least=1)
    max_requests: int = option(1000, "Requests in progress at once; more are refused.", at_least=1)
    max_rows: int = option(10_000, "The largest number of rows in a request.", at_least=1)
    max_body_bytes: int = option(64 << 20, "The largest request in bytes.", at_least=1)
    body_seconds: float = option(60, "The time limit for the arrival of a request.", at_least=0.001)
    timeout_seconds: float = option(30, above=0)
    shutdown_seconds: float = option(30, "The time limit for requests in progress at the end.", at_least=0)
