"""The flags, the batch and the protocol that all sides of the training benchmarks share. It imports NumPy only."""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable

import numpy as np

FIRST_WORD = 5  # smaller ids are [PAD], [UNK], [CLS], [SEP] and [MASK]
MASKED_SHARE = 0.15


def arguments_of_side(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--config", type=json.loads, required=True, help="the keys of bert_config.json, as JSON")
    parser.add_argument("--folder", help="of a masked LM in the format of transformers; default: BERT, random weights")
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--predictions", type=int, required=True, help="masked tokens in a row")
    parser.add_argument("--steps", type=int, required=True, help="steps in a turn")
    parser.add_argument("--dtype", default="float32", help="of the computation, where a side has others than float32")
    parser.add_argument("--xla", type=int, default=0, help="1: XLA compiles the step, where a side leaves the choice")
    parser.add_argument(
        "--gradient_checkpointing", type=int, default=0, help="1: compute layers again, where a side can"
    )
    return parser.parse_args()


def num_predictions(length: int) -> int:
    """Returns the number of masked tokens in a row of `length` tokens: 20 of 128, 77 of 512."""
    return math.ceil(MASKED_SHARE * length)


def random_batch(batch_size: int, length: int, predictions: int, vocab_size: int) -> dict[str, np.ndarray]:
    """Returns a batch of random rows without padding, with the names of a pre-training record; the same every time."""
    generator = np.random.default_rng(1)
    positions = [np.sort(generator.permutation(length)[:predictions]) for _ in range(batch_size)]
    columns = {
        "input_ids": generator.integers(FIRST_WORD, vocab_size, (batch_size, length)),
        "input_mask": np.ones((batch_size, length)),
        "segment_ids": np.tile(np.arange(length) >= length // 2, (batch_size, 1)),
        "masked_lm_positions": np.stack(positions),
        "masked_lm_ids": generator.integers(FIRST_WORD, vocab_size, (batch_size, predictions)),
        "next_sentence_labels": generator.integers(0, 2, (batch_size, 1)),
    }
    batch = {name: column.astype("int32") for name, column in columns.items()}
    return batch | {"masked_lm_weights": np.ones((batch_size, predictions), "float32")}


def gpu_memory_of_tensorflow() -> int:
    """Returns the largest number of bytes of tensors that TensorFlow has held on the first GPU; 0 without one."""
    import tensorflow as tf

    return tf.config.experimental.get_memory_info("GPU:0")["peak"] if tf.config.list_logical_devices("GPU") else 0


def answer_requests(
    about: dict[str, str],
    jobs: dict[str, Callable[[], object]],
    steps: int,
    wait: Callable[[object], None],
    gpu_memory: Callable[[], int],
) -> None:
    """Answers each line of standard input with a line of JSON.

    The name of a job is answered with the `seconds` of running it `steps` times and the peak of `gpu_memory`, an empty
    line with `about`.

    Args:
        about: a description of this side and its device.
        jobs: name -> a function that starts one step and returns its result, which may still be computed.
        wait: returns when a result is computed. Earlier steps are then finished too, because a device keeps the order.
        gpu_memory: returns the largest number of bytes of tensors that the GPU has held; 0 without a GPU.
    """
    for line in sys.stdin:
        report = about
        if line.strip():
            job = jobs[line.strip()]
            begin = time.perf_counter()
            for _ in range(steps):
                result = job()
            wait(result)
            report = {"seconds": time.perf_counter() - begin, "steps": steps, "gpu_memory": gpu_memory()}
        print(json.dumps(report), flush=True)
