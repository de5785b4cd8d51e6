"""Shared by all tests: fixtures for the real data and for commands, and a quiet TensorFlow."""

import gc
import io
import multiprocessing
import os
import pathlib
import random
import sys
import time
import warnings

import numpy as np
import pytest

pytest_plugins = ["workers"]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def pytest_collection_finish(session):
    """Lets Python search for garbage less often: TensorFlow and its graphs are millions of objects that stay."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Gives each test the same random numbers in every run, whatever ran before it.

    Keras takes the seeds of layers from Python's generator. TensorFlow's own seed is left alone: setting it throws away
    all compiled kernels.

    A slow test that would begin after the Unix time KERAS_BERT_DEADLINE is left out: .ci/run has 90 minutes.
    """
    if item.get_closest_marker("slow") and time.time() > float(os.environ.get("KERAS_BERT_DEADLINE", "inf")):
        pytest.skip("the time for slow proofs is over: KERAS_BERT_DEADLINE")
    random.seed(0)
    np.random.seed(0)


@pytest.fixture(scope="session")
def shared_data():
    """Returns a function from path parts to a path in the folder of real data, or skips the test with the reason."""
    from places import REAL_DATA

    def find(*parts: str) -> pathlib.Path:
        path = REAL_DATA.joinpath(*parts)
        if not path.exists():
            pytest.skip(f"no real data: {'/'.join(parts)} is not in the folder named by KERAS_BERT_DATA")
        return path

    return find


@pytest.fixture
def run_here(monkeypatch, capsys):
    """Runs a command in this process: (module, *arguments, input=b"") -> exit code, its output."""
    from absl import flags

    def run(module, *arguments, input=b""):
        monkeypatch.setattr(sys, "argv", [module.__name__.rpartition(".")[2], *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(input), "utf-8", "surrogateescape"))
        others, code = set(flags.FLAGS), 0
        try:
            module.command()
        except SystemExit as exit:
            code = exit.code
        for name in set(flags.FLAGS) - others:
            delattr(flags.FLAGS, name)
        return code, capsys.readouterr()

    return run


@pytest.fixture
def done_here(run_here):
    """Runs a command that succeeds, as `run_here` does -> its output."""
    return lambda *arguments, **options: _output(run_here(*arguments, **options), 0)


@pytest.fixture
def refused_here(run_here):
    """Runs a command that ends with the exit code 1, as `run_here` does -> its output."""
    return lambda *arguments, **options: _output(run_here(*arguments, **options), 1)


def _output(result, expected_code):
    code, printed = result
    assert code == expected_code, printed.err
    return printed


@pytest.fixture
def python_tokenizer(monkeypatch):
    """Replaces the graph tokenizer, which takes seconds to build, by the reference tokenizer, with the same ids."""
    from python_encoder import python_encoder

    from data_prep.tokenized import tokenize_text

    tokenize_text._encoder.cache_clear()
    monkeypatch.setattr("data_prep.tokenized.tokenize_text.graph_encoder", python_encoder)
    yield
    tokenize_text._encoder.cache_clear()


@pytest.fixture
def eagerly(monkeypatch):
    """Trains without graphs, because making a graph takes longer than a few updates."""
    from keras_bert.models.task_model import TaskModel

    compile_model = TaskModel.compile

    def compile_eagerly(model, optimizer, **arguments):
        compile_model(model, optimizer, **{**arguments, "run_eagerly": True, "jit_compile": False})

    monkeypatch.setattr(TaskModel, "compile", compile_eagerly)


@pytest.fixture
def without_graphs(request):
    """Trains, evaluates and predicts operation by operation, but in slow tests, which take many steps."""
    import tensorflow as tf

    # tf.data says that its own functions stay graphs, and Keras that rows of one token have a softmax of 1.
    warnings.filterwarnings("ignore", "Even though the `tf.config.experimental_run_functions_eagerly`")
    warnings.filterwarnings("ignore", "You are using a softmax over axis")
    tf.config.run_functions_eagerly(request.node.get_closest_marker("slow") is None)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module", autouse=True)
def free_memory():
    """Frees the models and graphs that the tests of a file leave behind. Later searches for garbage skip the rest."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def unrounded_products():
    """Keeps GPUs from rounding the factors of float32 products to 10 bits."""
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].config.experimental.enable_tensor_float_32_execution(False)


@pytest.fixture(scope="session", autouse=True)
def one_graph_tokenizer():
    """Lets exports share the graph tokenizer of a vocabulary, which takes a third of the time of an export to make."""
    export, made = sys.modules.get("keras_bert.serving.export"), {}
    with pytest.MonkeyPatch.context() as patch:
        if export:
            make = export.make_tokenizer

            def make_once(tokenizer, core_operations=False):
                key = (tokenizer.sha256, tokenizer.do_lower_case, core_operations)
                if key not in made:
                    made[key] = make(tokenizer, core_operations)
                return made[key]

            patch.setattr(export, "make_tokenizer", make_once)
        yield


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """Models of every kind and their exports: (name -> (model, options), name -> folder); see tiny_models.py."""
    from tiny_models import SAVED_MODELS, Exports, make_model

    models = {name: (make_model(model), options) for name, (model, options) in SAVED_MODELS.items()}
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # that of all processes
    return models, Exports(models, folder / "served")


@pytest.fixture(scope="session")
def records(tmp_path_factory):
    """The path of 64 records for pre-training; tests only read it."""
    from tiny_pretraining import write_records

    return write_records(tmp_path_factory.mktemp("records") / "train.tfrecord")


@pytest.fixture(scope="module")
def on_four_devices():
    """Calls functions in a process with four logical devices, which the tests of a module share."""
    from distributed_runs import make_devices

    with multiprocessing.get_context("spawn").Pool(1, make_devices) as process:
        yield lambda function, *arguments: process.apply_async(function, arguments).get(timeout=300)
