"""Hides TensorFlow's start-up messages from the users of a command."""

import contextlib
import importlib.abc
import importlib.machinery
import os
import sys
import tempfile
from collections.abc import Iterator

# TensorFlow imports Keras, and Keras imports these packages if they are installed. That takes a third of the import's
# time, and no command uses the wrappers and pictures that need them.
_NOT_NEEDED = ("sklearn", "matplotlib")


def quiet_tensorflow() -> None:
    """Makes a later `import tensorflow` print nothing, unless the import fails.

    TF_CPP_MIN_LOG_LEVEL=3 hides later messages (errors still reach Python as exceptions). But before TensorFlow 2.21
    reads that variable, it writes seven lines about CPU instructions and missing GPU drivers to file descriptor 2.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "tensorflow" not in sys.modules:
        sys.meta_path.insert(0, _QuietFinder())


class _QuietFinder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None:
            spec.loader = _QuietLoader(spec.loader)
        return spec


class _QuietLoader(importlib.abc.Loader):
    """Loads a module with another loader and shows standard error only if that fails."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        with _hidden_standard_error(), _hidden_packages(*_NOT_NEEDED):
            self._loader.exec_module(module)
            # The search for devices prints the last messages.
            module.config.list_physical_devices()

    def __getattr__(self, name):
        return getattr(self._loader, name)


@contextlib.contextmanager
def _hidden_packages(*names: str) -> Iterator[None]:
    """Lets imports in the block fail as if these packages were not installed, unless they are already imported."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextlib.contextmanager
def _hidden_standard_error() -> Iterator[None]:
    """Shows the block's output to file descriptor 2, including that of C++ code, only if the block fails."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held_back:
        saved = os.dup(2)
        os.dup2(held_back.fileno(), 2)
        try:
            yield
        except BaseException:
            sys.stderr.flush()
            held_back.seek(0)
            os.write(saved, held_back.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
