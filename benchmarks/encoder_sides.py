"""Runs the same encoder in several engines, as processes that take turns.

Every side is a module of `benchmarks.sides` in the environment of its engine; `make benchmark` makes the environments.
All load the same folder, which we write in the format of transformers, so all compute with the same weights; the ONNX
file is torch's export of it. A side that cannot start, ends early or computes other values is left out, with a reason.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping

import numpy as np

from benchmarks.workers_in_turns import end_workers, start_worker, take_turn
from keras_bert import registry
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError

VOCAB_SIZE = 30522  # of Google's uncased models
PROJECT = pathlib.Path(__file__).resolve().parent.parent
MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
# Largest allowed difference of the vectors of real tokens from ours; the values are of about size 1.
LARGEST_DIFFERENCE = 1e-3
LARGEST_DIFFERENCE_OF_GELUS = 5e-2
LARGEST_DIFFERENCE_OF_8_BITS = 2e-2
LARGEST_DIFFERENCE_OF_BFLOAT16 = 2.5e-1  # 12 layers of BASE that round at other places


@dataclasses.dataclass(frozen=True)
class Side:
    """A module with the protocol of `benchmarks.sides.answering`, and the environment it runs in; "" is our own.

    `reads_torch_export` says whether it needs the file that `benchmarks.sides.export_onnx` writes, `has_dtypes` whether
    it can compute in others than float32.
    """

    module: str
    environment: str = ""
    arguments: Mapping[str, object] = dataclasses.field(default_factory=dict)
    reads_torch_export: bool = False
    has_dtypes: bool = False


def _exported(format: str, reads_torch_export: bool = False, **weights) -> Side:
    return Side("benchmarks.sides.exported_encoder", "", {"format": format, **weights}, reads_torch_export)


SIDES = {
    "ours": Side("benchmarks.sides.keras_bert_encoder", has_dtypes=True),
    "ours_unpadded": Side("benchmarks.sides.keras_bert_encoder", arguments={"unpadded": 1}),
    "ours_xla": Side("benchmarks.sides.keras_bert_encoder", arguments={"xla": 1}, has_dtypes=True),
    "ours_jax": Side("benchmarks.sides.keras_bert_on_jax", "jax", has_dtypes=True),
    "keras_hub": Side("benchmarks.sides.keras_hub_encoder", "keras_hub"),
    "transformers": Side("benchmarks.sides.transformers_encoder", "torch", has_dtypes=True),
    "onnxruntime": Side("benchmarks.sides.onnxruntime_encoder", "onnx", reads_torch_export=True),
    "saved_model": _exported("saved_model"),
    "litert": _exported("litert"),
    "litert int8": _exported("litert", weights="int8"),
    "onnx": _exported("onnx"),
    "onnx int8": _exported("onnx", weights="int8"),
    "torch's graph": _exported("torch", reads_torch_export=True),
}
FORMAT_SIDES = list(SIDES)[-6:]
OTHERS = ("keras_hub", "transformers", "onnxruntime")


def config_of_size(size: str, hidden_act: str = "") -> BertConfig:
    """Returns the config of a published size, of `minilm` (MiniLM-L6, exact GELU), or of `smoke`, for tests.

    The name of a family is that family with four layers of BASE's width, MobileBERT with its own width.
    """
    changes = {"hidden_act": hidden_act} if hidden_act else {}
    if size == "minilm":
        return BertConfig(vocab_size=VOCAB_SIZE, **MINILM, **{"hidden_act": "gelu_erf"} | changes)
    if size == "smoke":
        return BertConfig.from_size("tiny", 1000, hidden_size=32, intermediate_size=64, **changes)
    if size in registry.FAMILIES:
        shape = {"num_hidden_layers": 4}
        if size != "mobilebert":
            inner = 1152 if size == "modernbert" else 3072
            shape |= {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": inner}
        values = {"vocab_size": VOCAB_SIZE} | dict(registry.family(size).defaults) | shape
        return BertConfig.from_dict({**values, **changes, "model_type": size})
    return BertConfig.from_size(size, VOCAB_SIZE, **changes)


def python_of(environment: str, environments: str) -> str:
    """Returns the Python of an environment, our own for "". Raises `InputError` if the environment does not exist."""
    if not environment:
        return sys.executable
    python = os.path.join(environments, environment, "bin", "python")
    if not os.path.exists(python):
        raise InputError(f"there is no {os.path.join(environments, environment)}, which `make benchmark` makes")
    return os.path.abspath(python)


def environment_of_sides(environment: str) -> dict[str, str]:
    """Returns the environment variables that let every Python find this checkout, and TensorFlow say less."""
    path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    backend = "jax" if environment == "jax" else "tensorflow"
    # JAX and TensorFlow would take most of a GPU's memory, and leave too little for the others.
    memory = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    return {"PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": backend} | memory


def write_model(folder: str, config: BertConfig) -> None:
    """Writes a masked LM with random weights, biases too, in the format of transformers."""
    import keras

    from keras_bert.tasks.masked_lm.model import MaskedLM

    keras.utils.set_random_seed(1)
    model = MaskedLM(config)
    generator = np.random.default_rng(1)
    for variable in model.trainable_variables:
        if len(variable.shape) == 1:
            variable.assign_add(generator.normal(0, 0.02, variable.shape))
    model.save_pretrained(folder, format="huggingface")


def write_batch(path: str, rows: list[list[int]], segments: list[list[int]]) -> None:
    """Writes rows of token ids, padded to the longest, as a batch file of `benchmarks.sides.answering`."""
    batch = {name: np.zeros((len(rows), max(map(len, rows))), "int32") for name in ("input_ids", "segment_ids")}
    batch["input_mask"] = np.zeros_like(batch["input_ids"])
    for number, (ids, segment_ids) in enumerate(zip(rows, segments, strict=True)):
        batch["input_ids"][number, : len(ids)] = ids
        batch["segment_ids"][number, : len(ids)] = segment_ids
        batch["input_mask"][number, : len(ids)] = 1
    np.savez(path, **batch)


class RunningSides:
    """A context manager that starts some of `sides`. `left_out` maps the sides that are left out to their reasons."""

    def __init__(self, names, environments: str, dtype: str = "float32", sides: Mapping[str, Side] | None = None):
        self.environments, self.dtype, self.sides = environments, dtype, sides or SIDES
        self.workers, self.said, self.left_out, self.versions = {}, {}, {}, {}
        self._files = contextlib.ExitStack()
        for name in names:
            if name not in self.sides:
                raise InputError(f"There is no side {name!r}. There are: {', '.join(self.sides)}")
        for name in names:
            self.attempt(name, self._start, name)

    def _start(self, name: str) -> None:
        side = self.sides[name]
        if self.dtype != "float32" and not side.has_dtypes:
            raise InputError(f"it does not compute in {self.dtype} here")
        python = python_of(side.environment, self.environments)
        self.said[name] = self._files.enter_context(tempfile.TemporaryFile("w+"))  # noqa: SIM115
        self.workers[name] = start_worker(
            python,
            side.module,
            side.arguments | ({"dtype": self.dtype} if side.has_dtypes else {}),
            environment_of_sides(side.environment),
            self.said[name],
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_workers(list(self.workers.values()))
        self._files.close()

    def load(self, folder: str, config: BertConfig, batch: str) -> None:
        """Lets all sides load a model, and compares their outputs for a batch with those of the first side.

        Raises:
            InputError: no side is left.
        """
        if not self.workers:
            raise InputError("No side can be measured. Why each was left out stands above.")
        if any(self.sides[name].reads_torch_export for name in self.workers):
            self._export(folder)
        wanted = None
        with np.load(batch) as columns:
            is_token = columns["input_mask"] > 0
        for name in list(self.workers):
            report = self.attempt(name, self.ask, name, {"load": folder})
            if report is None:
                continue
            self.versions[name] = report["side"]
            path = os.path.join(folder, f"{name}.npy")
            if self.attempt(name, self.ask, name, {"outputs": [batch], "to": path}) is None:
                continue
            found = np.load(path)[is_token]
            if wanted is None:
                wanted = found
                continue
            self.attempt(name, _check_difference, found, wanted, name, config, self.dtype)

    def _export(self, folder: str) -> None:
        """Lets torch write the model for the sides that read ONNX."""
        try:
            python = python_of("torch", self.environments)
            done = subprocess.run(
                [python, "-m", "benchmarks.sides.export_onnx", folder],
                capture_output=True,
                text=True,
                env=os.environ | environment_of_sides("torch"),
            )
            if done.returncode:
                raise InputError(last_line(done.stderr))
        except InputError as error:
            for name in [name for name in self.workers if self.sides[name].reads_torch_export]:
                self.leave_out(name, f"torch could not export the model: {error}")

    def ask(self, name: str, request: dict) -> dict:
        """Returns the report of a side. Raises `InputError` with the last line that it wrote if it ended."""
        try:
            return take_turn(self.workers[name], json.dumps(request))
        except InputError:
            self.said[name].seek(0)
            raise InputError(last_line(self.said[name].read())) from None

    def attempt(self, name: str, function, *arguments):
        """Returns the function's result; if it raises `InputError`, leaves the side out and returns None."""
        try:
            return function(*arguments)
        except InputError as error:
            self.leave_out(name, str(error))
            return None

    def leave_out(self, name: str, reason: str) -> None:
        print(f"{name} is left out: {reason}", file=sys.stderr, flush=True)
        self.left_out[name] = reason
        if worker := self.workers.pop(name, None):
            end_workers([worker])

    def turns(
        self, requests: dict[str, list[dict]], num_turns: int, uncounted: int = 1, report_key: str = "seconds"
    ) -> dict[str, list]:
        """Lets the sides take turns, each with its next request; returns the seconds of each turn of each side.

        The first turns are not counted. The order changes: the first side of a turn is the last of the next turn.

        Args:
            requests: side -> its requests (`time` of `benchmarks.sides.answering`), which are repeated in a cycle.
            report_key: `seconds`, the mean of a turn's runs, `runs`, a list of the seconds of each, or "" for both.
        """
        seconds = {name: [] for name in requests}
        names = [name for name in requests if self._worker_of(name) in self.workers]
        for number in range(-uncounted, num_turns):
            for name in names[number % len(names) :] + names[: number % len(names)]:
                worker = self._worker_of(name)
                if worker not in self.workers:
                    continue
                own = requests[name]
                report = self.attempt(worker, self.ask, worker, own[number % len(own)])
                if report and number >= 0:
                    seconds[name].append(report[report_key] if report_key else report)
        return {name: found for name, found in seconds.items() if len(found) == num_turns}

    def _worker_of(self, name: str) -> str:
        """The same worker can take part under two names, `transformers` and `transformers, sorted`."""
        return name.split(",")[0]


def _check_difference(found: np.ndarray, wanted: np.ndarray, name: str, config: BertConfig, dtype: str) -> None:
    allowed = LARGEST_DIFFERENCE_OF_8_BITS if SIDES[name].arguments.get("weights") else LARGEST_DIFFERENCE
    if name == "keras_hub" and config.hidden_act == "gelu_erf":
        allowed = LARGEST_DIFFERENCE_OF_GELUS  # its BERT and ELECTRA have only the tanh approximation
    if dtype != "float32":
        allowed = LARGEST_DIFFERENCE_OF_BFLOAT16
    largest = np.abs(found - wanted).max() if found.shape == wanted.shape else np.inf
    if not largest <= allowed:
        raise InputError(f"its vectors differ from ours by up to {largest:.2g}, and {allowed:g} was allowed")


def last_line(text: str) -> str:
    """Returns the last line of a text that is not empty."""
    return ([line.strip() for line in text.splitlines() if line.strip()] or ["it ended and said nothing"])[-1]
