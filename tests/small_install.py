"""The small install as a folder, for processes that must find nothing else of the project."""

import functools
import os
import pathlib
import runpy
import tempfile

from places import PROJECT, TESTS

RUNTIME = PROJECT / "runtime"
FILES = runpy.run_path(str(RUNTIME / "needed_modules.py"))


@functools.cache
def _tree() -> tempfile.TemporaryDirectory:
    folder = tempfile.TemporaryDirectory(prefix="small_install_")
    FILES["copy_needed_files"](PROJECT, pathlib.Path(folder.name))
    return folder


def small_environment() -> dict[str, str]:
    """Returns environment variables with which Python imports the small install, and helpers of tests."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([_tree().name, str(TESTS)])}
