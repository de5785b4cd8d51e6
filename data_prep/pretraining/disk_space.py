"""Reports how much disk space a long job will need, before it starts."""

import logging
import os
import shutil

from keras_bert.program.errors import InputError

_logger = logging.getLogger(__name__)

# Estimates are based on a sample of the input.
_TOLERANCE = 1.05


def announce_disk_use(needs: dict[str, int], folder: str | os.PathLike, advice: str) -> None:
    """Logs the disk space that a job needs below `folder`, and raises an error if there is too little.

    Args:
        needs: description of the files -> their estimated size in bytes.
        folder: the folder, which need not exist yet.

    Raises:
        InputError: less space is free than needed.
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
    """Returns a size in a suitable unit.

    >>> readable_bytes(1_260_000)
    '1.3 MB'
    """
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
