"""Packaging of the small install, which runs exports without TensorFlow and Keras: docs/runtimes.md.

It has the name of the full package and another version, so pip puts one in the place of the other.
"""

import pathlib
import re
import runpy
import shutil

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).resolve().parent
# A copy of the needed files, which is made anew in a clone. A source distribution has it.
TREE = HERE / "tree"

if not (HERE / "PKG-INFO").is_file():
    for folder in (TREE, HERE / "build"):  # what the last build left behind
        shutil.rmtree(folder, ignore_errors=True)
    runpy.run_path(str(HERE / "needed_modules.py"))["copy_needed_files"](HERE.parent, TREE)
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
