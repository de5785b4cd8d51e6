"""Folders of this user for files that can be made again, such as compiled networks."""

import contextlib
import hashlib
import importlib.metadata
import os
import platform
from collections.abc import Sequence
from typing import Any

# Lines of /proc/cpuinfo that say what a processor can do.
_PROCESSOR = ("vendor_id", "cpu family", "model", "model name", "flags", "CPU implementer", "CPU part", "Features")


def cache_folder(name: str) -> str | None:
    """Returns a folder under XDG_CACHE_HOME, or ~/.cache, or None if it cannot be used.

    It is used only if it belongs to this user and nobody else may write to it: what is read from it is trusted.

    Args:
        name: the name of the folder, which is made if it is missing.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = given if os.path.isabs(given) else os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(base, "keras_bert", name)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        state = os.stat(folder)
    except OSError:
        return None
    is_own = state.st_uid == os.getuid() and not state.st_mode & 0o022
    return folder if is_own and os.path.isabs(folder) and os.access(folder, os.W_OK | os.X_OK) else None


def remove_oldest(folder: str, most_bytes: int) -> None:
    """Removes files that were not used for longest, until those of a folder have at most `most_bytes` together.

    Errors are ignored: other processes may remove the same files.
    """
    with contextlib.suppress(OSError):
        files = [(entry.path, entry.stat()) for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False)]
        room = most_bytes
        for path, state in sorted(files, key=lambda file: -max(file[1].st_atime, file[1].st_mtime)):
            room -= state.st_size
            if room < 0:
                os.remove(path)


def cache_key(packages: Sequence[str], *parts: Any) -> str:
    """Returns the name of a file: a digest of parts, of this processor and of the versions of packages."""
    all_parts = [*parts, _processor(), os.cpu_count(), *map(_version, packages)]
    return hashlib.sha256(repr(all_parts).encode("utf-8")).hexdigest()[:32]


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read(1 << 16).partition("\n\n")[0]
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(line for line in first.split("\n") if line.partition(":")[0].strip() in _PROCESSOR)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:  # some builds of a package have another name
        return ""
