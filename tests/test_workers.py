"""A process of the tests that dies fails the test that it ran, and no other."""

import os
import subprocess
import sys

import pytest
from places import TESTS
from workers import LONG

COMMAND = [sys.executable, "-m", "pytest", "-p", "workers", "-p", "no:cacheprovider", "--dist=loadfile"]
DIES = "import os\n\ndef test_before(): pass\n\ndef test_dies(): os._exit(1)\n\ndef test_after(): pass\n"
PASSES = "import time\n\ndef test_a(): time.sleep(0.05)\n\ndef test_b(): time.sleep(0.05)\n"


@pytest.mark.parametrize(("dies", "num_workers"), [("test_1.py", 2), ("test_8.py", 1)])
def test_a_dead_process_fails_one_test_and_the_others_run(tmp_path, dies, num_workers):
    for number in range(9):
        (tmp_path / f"test_{number}.py").write_text(DIES if dies == f"test_{number}.py" else PASSES)
    result = subprocess.run(
        [*COMMAND, f"--numprocesses={num_workers}", f"--rootdir={tmp_path}", tmp_path],
        env={**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "1 failed, 18 passed" in result.stdout, result.stdout
    assert f"crashed while running '{dies}::test_dies'" in result.stdout


@pytest.mark.parametrize("name", LONG)
def test_a_file_that_starts_first_exists(name):
    assert list(TESTS.rglob(name))
