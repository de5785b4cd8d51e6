"""Decides whether and when a request is sent again."""

import random
import time

from keras_bert.tf_serving.client.errors import DeadlineExceeded, ServingError, Unavailable

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
# The pause while waiting for a model to become available.
POLL_SECONDS = 0.2


class Attempts:
    """The attempts of one request. A busy or missing server (`Unavailable`) gets another attempt after a pause.

    Pauses double. Each is drawn between half of its length and all of it, so that clients that failed together do not
    return together. Errors of the request itself (400, 404, ...) are final.

    Args:
        timeout: seconds for all attempts and pauses together.
        retries: the most attempts after the first.
        clock, draw: sources of time and of random numbers in [0, 1), replaced in tests.
    """

    def __init__(self, timeout: float, retries: int, clock=time.monotonic, draw=random.random):
        self._clock, self._draw = clock, draw
        self._timeout, self._retries = timeout, retries
        self._end = clock() + timeout
        self._count = 0

    def remaining(self) -> float:
        """Returns the seconds left, at least 0.001: some libraries read 0 as no limit."""
        return max(self._end - self._clock(), 0.001)

    def pause_after(self, error: ServingError) -> float:
        """Returns the seconds to wait before the next attempt; raises `error` if there is no next attempt."""
        self._count += 1
        error.attempts = self._count
        if not isinstance(error, Unavailable) or self._count > self._retries:
            raise error
        longest = min(_FIRST_PAUSE_SECONDS * 2 ** (self._count - 1), _LONGEST_PAUSE_SECONDS)
        pause = longest * (0.5 + 0.5 * self._draw())
        if self._clock() + pause >= self._end:
            text = f"no answer within {self._timeout:g} seconds; the last attempt ended with: {error.server_text}"
            late = DeadlineExceeded(error.server, "DEADLINE_EXCEEDED", text)
            late.attempts = self._count
            raise late from error
        return pause
