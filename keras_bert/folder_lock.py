"""One writer at a time in a folder."""

import contextlib
import os
from collections.abc import Iterator

from keras_bert.errors import InputError


@contextlib.contextmanager
def only_writer(path: str | os.PathLike) -> Iterator[None]:
    """Holds the lock file `path` while the block runs; the system lets it go when the process ends in any way.

    Raises:
        InputError: another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows: no lock.
        yield
        return
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"Another process is writing to {os.path.dirname(os.path.abspath(path))}. Wait for it, or use another "
                "folder."
            ) from None
        try:
            yield
        finally:
            # Removed while it is held: whoever waits for nobody cannot take a file that is about to vanish.
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
