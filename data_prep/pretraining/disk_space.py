"""Saying how much disk a long job will need, before it starts."""

import logging
import os
import shutil

from keras_bert.program.errors import InputError

_logger = logging.getLogger(__name__)

# Estimates are from a sample of the input.
_TOLERANCE = 1.05


def announce_disk_use(needs: dict[str, int], folder: str | os.PathLike, advice: str) -> None:
    """Logs what will be written below `folder`, and refuses what does not fit.

    Args:
        needs: what is written, in words -> its estimated bytes.
        folder: the place, or one that is about to be made.

    Raises:
        InputError: there is less free space than is needed.
    """
    existing = os.path.abspath(folder)
    while not os.path.isdir(existing):
        existing = os.path.dirname(existing)
    free = shutil.disk_usage(existing).free
    needed = round(sum(needs.values()) * _TOLERANCE)
    parts = ", ".join(f"{readable_bytes(size)} for {what}" for what, size in needs.items())
    _logger.info("Disk use below %s: about %s; %s are free.", existing, parts, readable_bytes(free))
    if needed > free:
        raise InputError(
            f"Not enough space below {existing}: about {parts} are needed, {readable_bytes(free)} are free. {advice}"
        )


def readable_bytes(size: int) -> str:
    """Returns a size in the unit that suits it.

    >>> readable_bytes(1_260_000)
    '1.3 MB'
    """
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
