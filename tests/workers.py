"""Gives the files of tests to the processes that run them, as `--dist loadfile` does, but outlives a dead process."""

import collections

import pytest
from xdist.scheduler import LoadFileScheduling

# Files with few tests that take minutes. They start first, so that no process works on one of them alone at the end.
LONG = (
    "test_jax_backend.py",
    "test_quickstart.py",
    "test_notebooks.py",
    "test_fused_attention_on_jax.py",
    "test_jax_commands.py",
    "test_jax_runs.py",
    "test_distributed_model.py",
)


class FileScheduling(LoadFileScheduling):
    """Gives each file to one process.

    pytest-xdist 3.8 gives the finished files of a process that died to the others too. A process that gets such a file,
    or one test alone, waits for more for ever, because a test starts only when the next one or the end is known.
    """

    def remove_node(self, node):
        files = self.assigned_work.pop(node)
        left = [(file, test) for file, tests in files.items() for test, is_done in tests.items() if not is_done]
        if not left:
            return None
        (_, killer), *others = left
        for file, test in others:
            self.workqueue.setdefault(file, {})[test] = False
        for other in self.assigned_work:
            self._reschedule(other)
        return killer

    def _reschedule(self, node):
        try:
            super()._reschedule(node)
        except OSError:  # the process has just died: remove_node will give its files to others
            return
        if not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            self._reschedule(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False  # the files are in order
    return FileScheduling(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(trylast=True)  # after slow tests are left out
def pytest_collection_modifyitems(config, items):
    """Puts long files first, then those with many tests, unless pytest-randomly mixes them."""
    if config.pluginmanager.has_plugin("randomly"):
        return
    num_tests = collections.Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path.name not in LONG, -num_tests[item.path]))
