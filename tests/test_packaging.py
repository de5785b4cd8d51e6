"""The package works when it is installed from a wheel, outside the clone."""

import importlib.util
import json
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
def clone(tmp_path_factory):
    """A copy of the project, so that no build folder is left in it."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, copy)
    for package in ("keras_bert", "data_prep", "run_scripts", "runtime"):
        ignored = shutil.ignore_patterns("__pycache__", "tree", "build", "*.egg-info")
        shutil.copytree(PROJECT / package, copy / package, ignore=ignored)
    return copy


def built(folder, clone):
    """Builds the wheel of a folder."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "dist", "."]
    subprocess.run(command, cwd=clone / folder, check=True, capture_output=True)
    (path,) = (clone / folder / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel(clone):
    return built(".", clone)


@pytest.fixture(scope="module")
def small_wheel(clone):
    return built("runtime", clone)


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
    setups = "".join((PROJECT / folder / "setup.py").read_text("utf-8") for folder in ("", "runtime"))
    extras = re.findall(r'^        "(\w+)": ', setups, re.M)
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


@pytest.fixture
def environment(tmp_path):
    """An empty environment: function of a program in it and arguments -> its output."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)

    def run(program, *arguments):
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [tmp_path / "environment" / "bin" / program, *arguments]
        result = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


@pytest.mark.slow
def test_pip_puts_the_small_install_and_the_full_package_in_the_place_of_each_other(environment, wheel, small_wheel):
    packages = environment("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    for path in (wheel, small_wheel, wheel, small_wheel):
        environment("python", "-m", "pip", "install", "--no-deps", "--no-index", path)
        files = {str(file.relative_to(packages)) for file in pathlib.Path(packages).rglob("*.py")}
        ours = {name for name in files if name.startswith(("keras_bert/", "run_scripts/", "data_prep/"))}
        assert ours == {name for name in zipfile.ZipFile(path).namelist() if name.endswith(".py")}
    environment("python", "-m", "pip", "uninstall", "--yes", "keras-bert-pipeline")
    assert not (pathlib.Path(packages) / "keras_bert").exists()


ASK = """
import json, sys, keras_bert.serving
from keras_bert.tf_serving.client import RestClient
folder, url = sys.argv[1:]
found = {name: keras_bert.serving.load(f"{folder}/{name.split('-')[0]}", name.split("-")[1]).predict(["the fox"])
         for name in ("onnx-onnxruntime", "onnx-openvino", "litert-litert")}
answers = {name: answer[0].probability for name, answer in found.items()}
with RestClient(url, "onnx") as client:
    answers["served"] = client.answers(text=["the fox"])[0].probability
print(json.dumps([answers, sorted(sys.modules)]))
"""


@pytest.mark.slow
def test_the_small_install_answers_in_an_empty_environment(environment, small_wheel, tmp_path):
    from tiny_models import make_model

    model = make_model("classifier")
    for format in ("onnx", "litert"):
        model.export_for_serving(tmp_path / format, format=format)
    requirement = f"{small_wheel}[onnx,openvino,litert,serving]"
    environment("python", "-m", "pip", "install", "--constraint", PROJECT / "constraints.txt", requirement)
    serve = [tmp_path / "environment" / "bin" / "keras-bert-serve", tmp_path / "onnx", "--port=0"]
    with subprocess.Popen(serve, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = re.match("REST and page: (.+)/\n", server.stdout.readline())[1]
            answers, imported = json.loads(environment("python", "-c", ASK, tmp_path, url))
        finally:
            server.terminate()
    assert not {"tensorflow", "keras", "scipy", "h5py"} & set(imported)
    expected = model.predict(["the fox"], verbose=0)[0].probability
    for answer in answers.values():
        assert answer == pytest.approx(expected, abs=1e-5)
