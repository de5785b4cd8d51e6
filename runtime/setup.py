"""Packaging of the small install, which runs exports without TensorFlow and Keras: docs/runtimes.md.

It has the name of the full package and another version, so pip puts one in the place of the other.
"""

import pathlib
import re
import runpy
import shutil

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent
# A copy of the needed modules, made anew in a clone; a source distribution has it.
TREE = HERE / "tree"
# Files that are no modules, of the packages that need them.
DATA = ("keras_bert/__init__.pyi", "keras_bert/py.typed", "keras_bert/tokenization/*.txt")
DATA += ("keras_bert/tf_serving/server/*.html", "keras_bert/tf_serving/server/*.js", "LICENSE")


def copy_needed_files() -> None:
    """Copies the modules of the small install, and their data, from the clone to `TREE`."""
    for folder in (TREE, HERE / "build"):  # what the last build left behind
        shutil.rmtree(folder, ignore_errors=True)
    find = runpy.run_path(str(HERE / "needed_modules.py"))["needed_modules"]
    for file in [*find(PROJECT).values(), *(file for pattern in DATA for file in PROJECT.glob(pattern))]:
        copy = TREE / file.relative_to(PROJECT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)


if not (HERE / "PKG-INFO").is_file():
    copy_needed_files()
VERSION = re.search(r'^__version__ = "(.+)"', (TREE / "keras_bert" / "__init__.py").read_text("utf-8"), re.M)[1]

setup(
    name="keras-bert-pipeline",
    version=f"{VERSION}+runtime",
    description="BERT on Keras 3: a small install that runs exports, without TensorFlow and Keras",
    license="Apache-2.0",
    license_files=["tree/LICENSE"],
    python_requires=">=3.11,<3.14",
    package_dir={"": "tree"},
    packages=find_packages("tree"),
    package_data={"": ["py.typed", "*.pyi", "*.txt", "*.html", "*.js"]},
    # The ranges are those of the full package, whose setup.py gives the reasons.
    install_requires=["numpy>=2.0,<3", "tqdm>=4.66,<5", "absl-py>=2.1,<3"],
    extras_require={
        "onnx": ["onnxruntime>=1.31,<2"],
        "openvino": ["openvino>=2026.4,<2027"],
        "litert": ["ai-edge-litert>=2.3,<3"],
        "serving": ["uvicorn>=0.54,<0.60", "httptools>=0.6.4,<1"],
        "tokenizers": ["tokenizers>=0.23,<1"],
        "sentencepiece": ["sentencepiece>=0.2.3,<0.3"],
        "scores": ["scikit-learn>=1.6,<2", "scipy>=1.15,<2"],
    },
    entry_points={"console_scripts": ["keras-bert-serve = run_scripts.serve:command"]},
)
