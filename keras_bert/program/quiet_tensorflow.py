"""Hides TensorFlow's start-up messages from the users of the package and of its commands."""

import contextlib
import importlib.abc
import importlib.machinery
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator

# TensorFlow imports Keras, and Keras imports these packages if they are installed. That takes a third of the import's
# time, and no command uses the wrappers and pictures that need them.
_NOT_NEEDED = ("sklearn", "matplotlib")
# Lines of TensorFlow's C++ log, `I0000 00:00:...` or `2026-01-31 12:00:00.0: I tensorflow/...`, and those around them.
_LOG_LINE = r"[{levels}]\d{{4}} \d\d:\d\d:|\d{{4}}-\d\d-\d\d \d\d:\d\d:[\d.]+: [{levels}] |"
_OTHER_LINES = r"WARNING: All log messages before absl::|To enable the following instructions:|\s*$"
_RETRACING = "triggered tf.function retracing"
_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def quiet_start_up() -> None:
    """Makes a later `import tensorflow` and the work with its models print no start-up messages.

    TF_CPP_MIN_LOG_LEVEL=3 hides later messages (errors still reach Python as exceptions). But before TensorFlow 2.21
    reads that variable, it writes seven lines about CPU instructions and missing GPU drivers to file descriptor 2. If
    the variable is set already, it stays, and messages of its levels are shown; 0 shows all.
    """
    if os.environ.setdefault(_LEVEL, "3") == "0":
        return
    logging.getLogger("tensorflow").addFilter(_is_for_user)
    if "tensorflow" not in sys.modules and _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def quiet_tensorflow() -> None:
    """As `quiet_start_up`, for a command: the import also leaves out packages that no command uses."""
    quiet_start_up()
    _finder.is_for_command = True


def _is_for_user(record: logging.LogRecord) -> bool:
    """Returns False for warnings that Keras or this package trace a function anew, as they do for every model."""
    if _RETRACING not in record.getMessage():
        return True
    frame = sys._getframe(1)
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in ("logging", "absl", "tensorflow"):
        frame = frame.f_back
    return frame is None or frame.f_globals.get("__name__", "").partition(".")[0] not in ("keras", "keras_bert")


class _QuietFinder(importlib.abc.MetaPathFinder):
    is_for_command = False

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None:
            spec.loader = _QuietLoader(spec.loader, self.is_for_command)
        return spec


_finder = _QuietFinder()


class _QuietLoader(importlib.abc.Loader):
    """Loads a module with another loader. Messages of TensorFlow's log are shown only if that fails."""

    def __init__(self, loader, is_for_command: bool):
        self._loader = loader
        self._is_for_command = is_for_command

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        if not self._is_for_command:
            with _hidden_log_lines(os.environ.get(_LEVEL, "3")):
                self._loader.exec_module(module)
            return
        with _hidden_log_lines("3"), hidden_packages(*_NOT_NEEDED):
            self._loader.exec_module(module)
            # The search for devices prints the last messages.
            module.config.list_physical_devices()

    def __getattr__(self, name):
        return getattr(self._loader, name)


@contextlib.contextmanager
def hidden_packages(*names: str) -> Iterator[None]:
    """Lets imports in the block fail as if these packages were not installed, unless they are already imported."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextlib.contextmanager
def _hidden_log_lines(level: str) -> Iterator[None]:
    """Hides lines of TensorFlow's log below a level that the block writes to file descriptor 2, unless it fails."""
    try:
        sys.stderr.flush()
        saved = os.dup(2)
    except (AttributeError, OSError):  # a process without standard error
        yield
        return
    with tempfile.TemporaryFile() as held_back:
        has_failed = True
        os.dup2(held_back.fileno(), 2)
        try:
            yield
            has_failed = False
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            held_back.seek(0)
            levels = "IWE"[: int(level) if level.isdigit() else 3] or "^ "
            hidden = re.compile((_LOG_LINE.format(levels=levels) + _OTHER_LINES).encode())
            lines = held_back.read().splitlines(keepends=True)
            os.write(saved, b"".join(line for line in lines if has_failed or not hidden.match(line)))
            os.close(saved)
