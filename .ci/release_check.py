"""Checks a release before it is published: what users install, in environments that hold nothing else.

  python .ci/release_check.py [--quick] [PYTHON ...]

Builds the wheel and the source distribution from the tracked files, and installs each of them with each Python. There
it runs `--help` of every command. The first Python also runs the quickstart from the wheel, asks its model in the small
install of runtime/, and installs the wheel beside an existing TensorFlow. Pythons are commands or paths; the default is
python3.11, python3.12 and python3.13, as far as they are on the path. With --quick the quickstart trains for seconds
only.

All work is done in a temporary folder, of about 3 GB. The first failing step ends the check with exit status 1.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

PROJECT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("keras_bert", "data_prep", "run_scripts")
PYTHONS = ["python3.11", "python3.12", "python3.13"]
# The quickstart draws its loss curves with matplotlib.
EXTRAS = "[plots]"
# tests/end_to_end/test_quickstart.py uses the same sizes.
QUICK_SIZES = {
    "VOCAB_SIZE": "1000",
    "MAX_SEQ_LENGTH": "32",
    "DUPE_FACTOR": "1",
    "NUM_TRAIN_STEPS": "10",
    "NUM_TRAIN_EPOCHS": "1",
    "NUM_LABELLED": "64",
}
NAMES_OF_COMMANDS = """
from importlib.metadata import distribution
print(*distribution("keras-bert-pipeline").entry_points.select(group="console_scripts").names)
"""
ASK_EXPORT = """
import sys, keras_bert.serving
print(keras_bert.serving.load("export").predict(["a text"])[0].label)
assert not {"tensorflow", "keras"} & sys.modules.keys()
"""
TINY_ENCODER = """
import numpy, tensorflow, keras_bert
config = keras_bert.BertConfig(100, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
ids = numpy.ones((2, 5), "int32")
outputs = keras_bert.BertEncoder(config)({"input_ids": ids, "input_mask": ids, "segment_ids": 0 * ids})
assert outputs["sequence_output"].shape == (2, 5, 8), outputs
"""


class StepFailed(Exception):
    """A step found a mistake; the text says which."""


@contextlib.contextmanager
def step(title: str):
    """Prints the title of a step, and its seconds when it is done."""
    print(f"{title} ... ", end="", flush=True)
    start = time.monotonic()
    yield
    print(f"{time.monotonic() - start:.0f} s", flush=True)


def run(command: list, folder: pathlib.Path, sizes: dict[str, str] | None = None) -> str:
    """Runs a command in a folder without the caller's Python settings, and returns its output.

    Raises:
        StepFailed: the exit status is not 0. The text ends with the last lines of the output.
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    result = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment | (sizes or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if result.returncode != 0:
        lines = "\n".join(result.stdout.splitlines()[-40:])
        raise StepFailed(f"{' '.join(map(str, command))}\nended with exit status {result.returncode}:\n{lines}")
    return result.stdout


def find_pythons(names: list[str], work: pathlib.Path) -> dict[str, str]:
    """Returns version -> command of the Pythons to check. Those of the default may be absent."""
    found = {}
    for name in names or PYTHONS:
        try:
            version = run([name, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], work).strip()
        except (OSError, StepFailed) as error:
            if names:
                raise StepFailed(f"{name} cannot be started: {error}") from None
            print(f"{name} cannot be started and is left out.")
            continue
        found[version] = name
    if not found:
        raise StepFailed("No Python was found. Name some: make release-check PYTHONS='/path/to/python3.11 ...'")
    return found


def make_environment(python: str, work: pathlib.Path) -> pathlib.Path:
    """Makes an empty virtual environment in place of the one before, and returns the folder of its programs."""
    shutil.rmtree(work / "environment", ignore_errors=True)
    run([python, "-m", "venv", work / "environment"], work)
    return work / "environment" / "bin"


def install(programs: pathlib.Path, *requirements: str) -> None:
    # Not compiled: an environment is used once, and compiling all of TensorFlow takes long.
    run([programs / "python", "-m", "pip", "install", "--no-compile", *requirements], programs.parent)


def build(python: str, work: pathlib.Path) -> dict[str, pathlib.Path]:
    """Builds both distributions from a copy of the tracked files; returns "wheel" and "sdist" -> path."""
    copy = work / "copy"
    for name in run(["git", "ls-files", "-z"], PROJECT).strip("\0").split("\0"):
        if (PROJECT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, copy / name)
    programs = make_environment(python, work)
    install(programs, "build")
    run([programs / "python", "-m", "build", "--sdist", "--wheel", "--outdir", work / "dist", "."], copy)
    (wheel,), (sdist,) = (work / "dist").glob("*.whl"), (work / "dist").glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def check_contents(distributions: dict[str, pathlib.Path], work: pathlib.Path) -> None:
    """Both must hold every tracked file of the packages; the wheel must hold nothing else."""
    files = [path for package in PACKAGES for path in (work / "copy" / package).rglob("*") if path.is_file()]
    needed = {path.relative_to(work / "copy").as_posix() for path in files}
    with zipfile.ZipFile(distributions["wheel"]) as archive:
        in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(distributions["sdist"]) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    if in_wheel != needed:
        raise StepFailed(f"Missing in the wheel, or there by mistake: {', '.join(sorted(in_wheel ^ needed))}")
    if needed - in_sdist:
        raise StepFailed(f"Missing in the source distribution: {', '.join(sorted(needed - in_sdist))}")


def check_commands(programs: pathlib.Path, work: pathlib.Path) -> None:
    """Every console script must be installed and show its help."""
    names = run([programs / "python", "-c", NAMES_OF_COMMANDS], work).split()
    if not names:
        raise StepFailed("The package has no console scripts.")
    for name in names:
        needed = "Training for a task:" if name == "keras-bert" else "Flags:"
        if needed not in run([programs / name, "--help"], work):
            raise StepFailed(f"{name} --help does not show {needed!r}.")


def check_quickstart(programs: pathlib.Path, work: pathlib.Path, quick: bool) -> None:
    run([programs / "keras-bert-quickstart", "--output_dir=quickstart"], work, QUICK_SIZES if quick else None)
    for name in ("report.txt", "loss_curves.png", "saved_models/library/1/saved_model.pb"):
        if not (work / "quickstart" / name).is_file():
            raise StepFailed(f"The quickstart did not write {name}.")


def check_small_install(python: str, programs: pathlib.Path, work: pathlib.Path) -> None:
    """The small install, from its wheel and its source distribution, must answer with the quickstart's model."""
    model = ["--model_dir=quickstart/classifier/model", "--output_dir=export", "--format=litert"]
    run([programs / "keras-bert-export-model", *model], work)
    programs = make_environment(python, work)
    install(programs, "build")
    run([programs / "python", "-m", "build", "--outdir", work / "small", "runtime"], work / "copy")
    for path in (work / "small").iterdir():
        programs = make_environment(python, work)
        install(programs, f"{path}[litert,serving]", "--constraint", str(PROJECT / "constraints.txt"))
        run([programs / "python", "-c", ASK_EXPORT], work)
        check_commands(programs, work)


def check_beside_tensorflow(python: str, wheel: pathlib.Path, work: pathlib.Path) -> None:
    """The wheel must leave an installed TensorFlow as it is. Nothing is pinned here, as with most users."""
    version = "from importlib.metadata import version; print(version('tensorflow'))"
    programs = make_environment(python, work)
    install(programs, "tensorflow==2.21.*")
    before = run([programs / "python", "-c", version], work)
    install(programs, str(wheel))
    after = run([programs / "python", "-c", version], work)
    if before != after:
        raise StepFailed(f"Installing the wheel replaced TensorFlow {before.strip()} with {after.strip()}.")
    run([programs / "python", "-m", "pip", "check"], work)
    run([programs / "python", "-c", TINY_ENCODER], work)


def check_release(names: list[str], quick: bool, work: pathlib.Path) -> None:
    pythons = find_pythons(names, work)
    first, *_ = pythons.values()
    with step("build the wheel and the source distribution"):
        distributions = build(first, work)
    with step("compare their contents with the tracked files"):
        check_contents(distributions, work)
    for version, python in pythons.items():
        for kind, path in distributions.items():
            with step(f"Python {version}: install the {kind}"):
                programs = make_environment(python, work)
                install(programs, f"{path}{EXTRAS}", "--constraint", str(PROJECT / "constraints.txt"))
            with step(f"Python {version}: --help of every command of the {kind}"):
                check_commands(programs, work)
            if python == first and kind == "wheel":
                with step(f"Python {version}: the quickstart from the wheel"):
                    check_quickstart(programs, work, quick)
                with step(f"Python {version}: the small install with the quickstart's model"):
                    check_small_install(python, programs, work)
    with step("the wheel beside an existing TensorFlow 2.21"):
        check_beside_tensorflow(first, distributions["wheel"], work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", help="the Pythons to check, instead of the default")
    parser.add_argument("--quick", action="store_true", help="run the quickstart on tiny sizes")
    arguments = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="release_check_") as folder:
        try:
            check_release(arguments.pythons, arguments.quick, pathlib.Path(folder))
        except StepFailed as error:
            sys.exit(f"FAILED\n{error}")
    print(f"The release is in order. All steps together: {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
