"""Makes tf.distribute strategies, or data parallelism on JAX, by name, and lets the processes of a run communicate."""

import contextlib
import functools
import hashlib
import json
import os
import sys
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from keras_bert.program.errors import InputError

if TYPE_CHECKING:  # it takes seconds, and predictions of exported folders do without it
    import tensorflow as tf

STRATEGIES = ("off", "one_device", "mirrored", "multi_worker_mirrored", "tpu")
ON_JAX = ("off", "data_parallel")


def make_strategy(name: str = "off", tpu: str = "") -> Any:
    """Returns the strategy that `--distribution_strategy` names. `off` is TensorFlow's default strategy.

    Start a run in its scope, `with make_strategy(...).scope():`, because model and optimiser must be made there.

    `mirrored` uses all GPUs of the machine, or all its logical CPU devices if it has no GPU. `multi_worker_mirrored`
    reads the variable TF_CONFIG, and must be made before TensorFlow runs anything. `tpu` has never been tested, because
    no TPU was available.

    Args:
        name: one of `STRATEGIES`.
        tpu: name or address of the TPU; empty for that of the machine.

    Raises:
        InputError: there is no such strategy, TF_CONFIG is missing or wrong, no TPU answers, or Keras runs on another
            backend than TensorFlow.
    """
    import keras
    import tensorflow as tf

    from keras_bert.accelerate.backend import keep_tensorflow_off_gpus, on_tensorflow

    keep_tensorflow_off_gpus()
    names = STRATEGIES if on_tensorflow() else ON_JAX
    if name not in names:
        raise InputError(
            f"distribution_strategy must be one of {', '.join(names)} where Keras runs on {keras.backend.backend()} "
            f"(KERAS_BACKEND). Received: {name!r}"
        )
    if not on_tensorflow():
        return _jax_strategy(name)
    if name == "off":
        return tf.distribute.get_strategy()
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy("GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0")
    if name == "mirrored":
        kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
        return tf.distribute.MirroredStrategy([device.name for device in tf.config.list_logical_devices(kind)])
    if name == "multi_worker_mirrored":
        check_tf_config(os.environ.get("TF_CONFIG"))
        return tf.distribute.MultiWorkerMirroredStrategy()
    return _tpu_strategy(tpu)


def _jax_strategy(name: str) -> Any:
    import jax

    from keras_bert.accelerate.jax_devices import DataParallel

    if jax.process_count() > 1:
        raise InputError("Training in several processes needs TensorFlow: start Python with KERAS_BACKEND=tensorflow.")
    # JAX's first device, in the form of a strategy.
    one_device = types.SimpleNamespace(scope=contextlib.nullcontext)
    return DataParallel() if name == "data_parallel" else one_device


def _tpu_strategy(address: str) -> "tf.distribute.Strategy":
    import tensorflow as tf

    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=address)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError) as error:
        raise InputError(
            f"No TPU answers at {address or 'this machine'} ({str(error).splitlines()[0]}). Give its name or grpc:// "
            "address in --tpu_name, or use another --distribution_strategy."
        ) from None
    return tf.distribute.TPUStrategy(resolver)


def check_tf_config(text: str | None) -> None:
    """Raises `InputError` if TF_CONFIG does not list the workers and the index of this process among them."""
    example = (
        '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}, with its own '
        "index for each worker. python -m run_scripts.launch_workers sets it for workers on one machine."
    )
    if not text:
        raise InputError(f"multi_worker_mirrored needs the environment variable TF_CONFIG, such as {example}")
    try:
        config = json.loads(text)
        workers, task = config["cluster"]["worker"], config["task"]
        is_valid = task["type"] in ("worker", "chief") and isinstance(task["index"], int)
        is_valid = is_valid and isinstance(workers, list) and all(":" in worker for worker in workers)
        is_valid = is_valid and task["index"] < len(config["cluster"][task["type"]])
    except (ValueError, KeyError, TypeError):
        is_valid = False
    if not is_valid:
        raise InputError(
            f"TF_CONFIG must list the workers and the index of this process among them. Received: {text}. Set {example}"
        )


def is_chief() -> bool:
    """Returns whether this process writes the files: it is the only one, or the first worker."""
    resolver = _workers()
    if resolver is None:
        return True
    has_chief = "chief" in resolver.cluster_spec().jobs
    return resolver.task_type == "chief" if has_chief else (resolver.task_type, resolver.task_id) == ("worker", 0)


def check_batch_size(batch_size: int, num_parts: int = 1) -> None:
    """Raises `InputError` if a batch cannot be divided evenly among the devices of the current strategy."""
    from keras_bert.accelerate.backend import keep_tensorflow_off_gpus, on_tensorflow

    keep_tensorflow_off_gpus()
    if on_tensorflow():
        import tensorflow as tf

        num_devices = tf.distribute.get_strategy().num_replicas_in_sync
    else:
        from keras_bert.accelerate import jax_devices

        num_devices = jax_devices.num_devices()
    if batch_size % (num_devices * num_parts):
        raise InputError(
            f"A batch of {batch_size} cannot be divided evenly among {num_devices} device(s), {num_parts} part(s) "
            f"each. Use a multiple of {num_devices * num_parts}: a batch counts the examples of all devices together."
        )


def check_workers_agree(settings: Mapping) -> None:
    """Raises `InputError` on every worker if the workers were started with different settings (JSON values)."""
    if _workers() is None:
        return
    text = json.dumps(settings, sort_keys=True)
    digest = int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:7], "big")
    if len(set(_of_all_workers([digest]))) > 1:
        raise InputError(
            "The workers were started with different settings. Start all with the same command and the same files. "
            f"The settings of this one: {text}"
        )


def any_worker(flag: bool) -> bool:
    """Returns whether the flag is true in any of the processes that train together. All must call it."""
    if _workers() is None:
        return flag
    return any(_of_all_workers([int(flag)]))


def wait_for_all() -> None:
    """Returns when all processes that train together have called this."""
    if _workers() is not None:
        _of_all_workers([0])


def worker_suffix() -> str:
    """Returns the suffix for files that every worker writes: "-worker1" and so on, but "" for the chief."""
    return "" if is_chief() else f"-worker{_workers().task_id}"


def call_in_chief(function: Callable[[], Any]) -> Any:
    """Calls `function` in the chief only and returns its result in all processes. All must call this.

    `function` returns JSON values. It must not contain a computation that the processes share, because the other
    processes only wait.

    Raises:
        InputError: `function` has raised it in the chief. It is raised in all processes.
    """
    if _workers() is None:
        return function()
    message = {}
    if is_chief():
        try:
            message = {"value": function()}
        except InputError as error:
            message = {"error": str(error)}
    codes = _of_all_workers(list(json.dumps(message).encode("utf-8")) if message else [])
    # A chief with several devices sends the message once per device.
    message, _ = json.JSONDecoder().raw_decode(bytes(codes).decode("utf-8"))
    if "error" in message:
        raise InputError(message["error"])
    return message["value"]


def run_in_chief(strategy: Any, function: Callable[[], Any]) -> None:
    """Calls `function` in the chief of a strategy, outside its scope and on one device. The others wait for it.

    Raises:
        InputError: `function` has raised it in the chief. It is raised in all processes.
    """
    with strategy.scope():
        is_in_chief = is_chief()
    failure = None
    if is_in_chief:
        try:
            function()
        except InputError as error:
            failure = error

    def report() -> None:
        if failure is not None:
            raise failure

    with strategy.scope():
        call_in_chief(report)


def _of_all_workers(numbers: list[int]) -> list[int]:
    """Returns the numbers of all workers in their order, those of each worker once per device."""
    import tensorflow as tf

    return _gather_function(tf.distribute.get_strategy())(tf.constant(numbers, tf.int64)).numpy().tolist()


@functools.cache
def _gather_function(strategy: "tf.distribute.Strategy"):
    import tensorflow as tf

    # Traced once, because `strategy.gather` alone makes a new graph in every call.
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
    def gather(numbers):
        return strategy.gather(strategy.run(lambda: numbers), axis=0)

    return gather


def _workers():
    """Returns the cluster resolver of the current strategy if several processes train together, else None."""
    tf = sys.modules.get("tensorflow")
    if tf is None:  # only TensorFlow has strategies
        return None
    resolver = getattr(tf.distribute.get_strategy(), "cluster_resolver", None)
    if resolver is None or not resolver.task_type:
        return None
    return resolver if sum(map(len, resolver.cluster_spec().as_dict().values())) > 1 else None
