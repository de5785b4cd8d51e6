"""The small install, which runtime/setup.py builds: its modules, and what it says about those that it leaves out."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from places import PROJECT
from small_install import FILES, RUNTIME, small_environment

from keras_bert.program.errors import _SMALL_EXTRAS
from keras_bert.serving import load

IMPORT_ALL = """
import importlib, pathlib, portable_answers
portable_answers.as_in_the_small_install()
import keras_bert
tree = pathlib.Path(keras_bert.__file__).parents[1]
for file in tree.rglob("*.py"):
    importlib.import_module(".".join(file.relative_to(tree).with_suffix("").parts).removesuffix(".__init__"))
"""
# Reads statements, and writes the error of each.
REFUSALS = """
import json, sys, portable_answers
portable_answers.as_in_the_small_install("tokenizers", "sentencepiece", "openvino")
from keras_bert.program.errors import InputError, how_to_install
from keras_bert.serving import load
for statement in json.load(sys.stdin):
    try:
        exec(statement)
    except InputError as error:
        print(json.dumps(f"{'ImportError' if isinstance(error, ImportError) else 'InputError'}: {error}"))
"""
LEFT_OUT = r"^ImportError: The small install of keras_bert, which runs exports only, does not have {}\. "
LEFT_OUT += r"Install the full package in its place: run in a clone of keras_bert: pip install \.$"
MISSING = r"^InputError: .* needs? .*package {}.*Run in a clone of keras_bert: pip install './runtime\[{}\]'$"
# Statement, with {} for the folder of exports -> what it says.
REFUSED = {
    "from keras_bert import SentenceEncoder": LEFT_OUT.format("keras_bert.tasks.embedding.model"),
    "import keras_bert.layers.attention": LEFT_OUT.format("keras_bert.layers"),
    "import data_prep.build_vocabulary": LEFT_OUT.format("data_prep.build_vocabulary"),
    "import run_scripts.export_model": LEFT_OUT.format("run_scripts.export_model"),
    "from keras_bert.tf_serving.client import *; GrpcClient('a:1', 'b')": LEFT_OUT.format(".*client.grpc_api"),
    "load('{}/onnx', 'openvino')": MISSING.format("that is not installed .*openvino", "openvino"),
    "load('{}/bytes')": MISSING.format("tokenizers", "tokenizers"),
    "load('{}/pieces')": MISSING.format("sentencepiece", "sentencepiece"),
    "load('{}/onnx').evaluate(['a', 'the'], [0, 1], verbose=0)": MISSING.format("scipy", "scores"),
    "load('{}/saved')": "saved is a SavedModel, which needs TensorFlow. Install it, or export with --format=onnx",
    "raise InputError(how_to_install('client'))": r"pip install '\.\[client\]'$",
}


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """A folder of exports: one for ONNX, one that says it is a SavedModel, and two with other tokenizers."""
    from tiny_models import make_model

    folder = tmp_path_factory.mktemp("exports")
    make_model("regression").export_for_serving(folder / "onnx", format="onnx")
    shutil.copytree(folder / "onnx", folder / "saved" / "1" / "assets")
    (folder / "saved" / "1" / "saved_model.pb").touch()
    description = folder / "saved" / "1" / "assets" / "export.json"
    description.write_text(description.read_text().replace('"onnx"', '"saved_model"'))
    for name, files in {"bytes": ["vocab.json", "merges.txt"], "pieces": ["spiece.model"]}.items():
        shutil.copytree(folder / "onnx", folder / name, ignore=shutil.ignore_patterns("vocab.txt"))
        for file in files:
            (folder / name / file).touch()
    return folder


def in_the_small_install(program: str, given: str = "") -> str:
    command = [sys.executable, "-P", "-W", "error", "-c", program]
    result = subprocess.run(command, input=given, env=small_environment(), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_each_module_is_imported_without_the_packages_of_the_full_package():
    in_the_small_install(IMPORT_ALL)


def test_what_is_left_out_is_refused_by_name(exports):
    statements = [statement.replace("{}", str(exports)) for statement in REFUSED]
    said = in_the_small_install(REFUSALS, json.dumps(statements)).splitlines()
    for statement, expected, found in zip(REFUSED, REFUSED.values(), map(json.loads, said), strict=True):
        assert re.search(expected, found), f"{statement}: {found}"
    assert load(exports / "onnx").evaluate(["a", "the"], [0.0, 1.0], verbose=0)


# What an entry needs, and what it asks for that needs further packages: itself, what it imports, or its package.
NEEDED = {
    "__init__": "import ast",
    "entry": "import numpy.linalg\nfrom keras_bert.first import name\nPLACE = 'keras_bert.tasks'\n"
    "LOOKED_UP = f'{PLACE}.task.CLASS', 'keras_bert.named.function', f'{name}.task', 'keras_bert.no_module'",
    "first": "def function():\n    import tensorflow\n    from keras_bert import last, on_scipy, behind_it, heavy",
    "last": "from keras_bert.circle import one",
    "circle": "import keras_bert.last",
    "named": "def function():\n    import keras_bert.heavy.on_it",
    "tasks.__init__": "",
    "tasks.task": "import json",
}
NOT_NEEDED = {
    "on_scipy": "try:\n    import scipy.stats\nexcept ImportError:\n    pass",
    "behind_it": "from keras_bert.on_scipy import x",
    "heavy.__init__": "import keras",
    "heavy.on_it": "",
    "unused": "",
}


def test_imports_are_followed_as_far_as_the_packages_suffice(tmp_path):
    for name, text in {**NEEDED, **NOT_NEEDED}.items():
        file = tmp_path.joinpath("keras_bert", *name.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    found = FILES["needed_modules"](tmp_path, ["keras_bert.entry"])
    names = {f"keras_bert.{name}".removesuffix(".__init__") for name in NEEDED}
    assert found.keys() == names
    assert found["keras_bert.tasks"] == tmp_path / "keras_bert" / "tasks" / "__init__.py"


def test_versions_and_extras_are_those_of_the_full_package():
    small, full = ((folder / "setup.py").read_text("utf-8") for folder in (RUNTIME, PROJECT))
    required = re.findall(r'"([\w-]+>=[^"]+)"', small)
    assert len(required) > 8
    assert all(f'"{one}"' in full for one in required)
    assert tuple(re.findall(r'^        "(\w+)": ', small, re.M)) == _SMALL_EXTRAS


def test_docker_gets_the_files_that_dockerfiles_copy():
    let_through = {line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    for file in (PROJECT / "docker").glob("*.Dockerfile"):
        for names in re.findall(r"^COPY (?!--)(.+) \S+$", file.read_text(), re.M):
            assert set(names.split()) <= let_through
