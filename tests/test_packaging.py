"""The package works when it is installed from a wheel, outside the clone."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

PROJECT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of the project, so that no build folder is left in it."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, copy)
    for package in ("keras_bert", "data_prep", "run_scripts"):
        shutil.copytree(PROJECT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "dist", "."]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    (path,) = (copy / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder that holds the unpacked wheel and nothing else of the project."""
    folder = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def console_scripts(installed) -> dict[str, tuple[str, str]]:
    text = next(installed.glob("*.dist-info")).joinpath("entry_points.txt").read_text()
    return {name: (module, function) for name, module, function in re.findall(r"^(\S+) = (\S+):(\w+)$", text, re.M)}


def run_outside_the_clone(installed, tmp_path, program, *arguments):
    # The clone is on sys.path through the editable installation; the wheel's folder comes before it.
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
    )


def test_messages_say_how_to_install_extras_of_setup_in_one_wording():
    files = [
        path for package in ("keras_bert", "data_prep", "run_scripts") for path in (PROJECT / package).rglob("*.py")
    ]
    texts = "".join(path.read_text("utf-8") for path in files)
    named = re.findall(r"""how_to_install\(["'](.+?)["']\)""", texts)
    extras = re.findall(r'^        "(\w+)": ', (PROJECT / "setup.py").read_text("utf-8"), re.M)
    assert len(named) > 10
    assert {extra for names in named for extra in names.split(",")} <= set(extras)
    assert "keras-bert-pipeline[" not in texts  # no index has the package


def test_the_wheel_holds_every_file_of_the_packages(wheel):
    packed = set(zipfile.ZipFile(wheel).namelist())
    for package in ("keras_bert", "data_prep", "run_scripts"):
        files = [path for path in (PROJECT / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        missing = [str(path.relative_to(PROJECT)) for path in files if str(path.relative_to(PROJECT)) not in packed]
        assert not missing, f"not in the wheel: {missing}"


def test_every_module_with_a_command_is_a_console_script(installed):
    modules = {module for module, _ in console_scripts(installed).values()}
    assert "run_scripts.__main__" in modules
    for package in ("data_prep", "run_scripts"):
        for path in (PROJECT / package).glob("*.py"):
            if "\ncommand = " in path.read_text("utf-8"):
                assert f"{package}.{path.stem}" in modules, f"add {path.stem} to run_scripts/command_names.py"


# Packages that take long to import, or that only an extra installs. A command imports them when it needs them, not for
# its help.
SLOW_PACKAGES = {"tensorflow", "tensorflow_text", "keras", "jax", "torch", "pandas", "scipy", "sklearn", "matplotlib"}
SLOW_PACKAGES |= {"pyarrow", "onnx", "onnxruntime", "openvino", "faiss", "h5py"}
SLOW_PACKAGES |= {"uvicorn", "httptools", "ai_edge_litert", "tensorflow_serving", "apache_beam", "zstandard"}
NAME_SLOW = f"print('slow:', *sorted({SLOW_PACKAGES} & sys.modules.keys()))"


def test_help_of_every_console_script_imports_no_slow_or_optional_package(installed, tmp_path):
    scripts = console_scripts(installed)
    assert scripts
    for name, (module, function) in scripts.items():
        assert importlib.util.find_spec(module), f"{name} starts {module}, which does not exist"
        start = f"import atexit, sys; from {module} import {function}; sys.argv[0] = {name!r}"
        program = f"{start}; atexit.register(lambda: {NAME_SLOW}); {function}()"
        result = run_outside_the_clone(installed, tmp_path, program, "--help")
        assert result.returncode == 0, result.stderr
        assert name == "keras-bert" or "Flags:\n  --" in result.stdout
        assert result.stdout.endswith("slow:\n"), f"{name}: {result.stdout[-100:]}"


def test_the_packages_and_all_commands_import_from_the_wheel_in_one_program(installed, tmp_path):
    modules = sorted(module for module, _ in console_scripts(installed).values())
    program = f"import keras_bert, {', '.join(modules)}; print(keras_bert.__file__, data_prep.__file__)"
    result = run_outside_the_clone(installed, tmp_path, program)
    assert result.returncode == 0, result.stderr
    assert all(str(installed) in path for path in result.stdout.split())


def test_seqeval_whose_build_can_fail_is_only_an_oracle_of_tests(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        required = re.findall(r"^Requires-Dist: ([\w.-]+)", archive.read(name).decode(), re.M)
    assert "scikit-learn" in required
    assert "seqeval" not in required


def test_the_quickstart_of_the_wheel_runs_its_stages_in_any_folder(installed, tmp_path):
    """There are a keras_bert.py and another Python on the path; it must use neither."""
    (tmp_path / "keras_bert.py").write_text("raise SystemExit('the current folder was imported from')")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text("#!/bin/sh\necho 'another Python was started' >&2\nexit 1\n")
    (tmp_path / "bin" / "python").chmod(0o755)
    (tmp_path / "text.txt").write_text("A text of one sentence.")
    paths = {"PYTHONPATH": str(installed), "PATH": os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])}
    program = "from run_scripts.quickstart import command; command()"
    # -P: like a console script, it does not import from the current folder.
    command = [sys.executable, "-P", "-c", program, "--output_dir=out", "--input_file=text.txt"]
    result = subprocess.run(command, cwd=tmp_path, env={**os.environ, **paths}, capture_output=True, text=True)
    assert result.returncode == 1
    # The first stage has read the text but not begun the work.
    assert re.fullmatch("error: .*sentence.*\n", result.stderr), result.stderr
    assert not (tmp_path / "out").exists()
