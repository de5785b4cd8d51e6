"""Shows how far a computation on texts is, if it takes long."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from keras_bert.program.long_work import progress_bar

_SECONDS_WITHOUT_PROGRESS, _SECONDS_BETWEEN_LINES = 10, 1


@contextlib.contextmanager
def text_progress(texts: Any, on_progress: Callable[[int], Any] | None) -> Iterator[Callable[[int], Any]]:
    """Yields `on_progress` or, for None, a function that moves a bar, which appears after ten seconds.

    Args:
        texts: a column of texts, whose number is shown if it is known.
        on_progress: takes the number of texts of each batch.
    """
    if on_progress is not None:
        yield on_progress
        return
    total = len(texts) if hasattr(texts, "__len__") and not isinstance(texts, str) else None
    with progress_bar(
        total=total, unit=" texts", mininterval=_SECONDS_BETWEEN_LINES, delay=_SECONDS_WITHOUT_PROGRESS
    ) as bar:
        yield bar.update
