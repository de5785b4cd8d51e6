"""Time and peak memory of converting and loading checkpoints, against the size of their weights.

    python -m benchmarks.checkpoint_memory --size=large --folder=/tmp/checkpoint_memory

A checkpoint of the size with random weights is written in the Hugging Face format, converted into each format and back
into it, and loaded as a model, each in a process of its own, whose peak memory is what the system says (ru_maxrss).
"""

import argparse
import os
import shutil
import subprocess
import sys
import time

import numpy as np

from keras_bert.checkpoints.checkpoint import BertCheckpoint, StoredTensor, encoder_shapes
from keras_bert.checkpoints.formats import WRITERS, write_checkpoint
from keras_bert.config import BertConfig

CONVERT = """
import resource, sys
from keras_bert.checkpoints.conversion import convert_checkpoint
convert_checkpoint(sys.argv[1], sys.argv[2], sys.argv[3])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
"""
LOAD = """
import resource, sys, time
import tensorflow as tf
from keras_bert import BertEncoder
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
start = time.perf_counter()
BertEncoder.from_pretrained(sys.argv[1])
seconds = time.perf_counter() - start
print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3} {seconds} {before}")
"""


def random_checkpoint(size: str) -> BertCheckpoint:
    config = BertConfig.from_size(size, vocab_size=30522)
    generator = np.random.default_rng(0)

    def stored(shape) -> StoredTensor:
        return StoredTensor(shape, "float32", lambda: generator.standard_normal(shape, dtype="float32") * 0.02)

    tensors = {name: stored(shape) for name, shape in encoder_shapes(config).items()}
    return BertCheckpoint(path=f"random {size}", kind="random", config=config, vocabulary=None, tensors=tensors)


def run(program: str, *arguments: str) -> tuple[list[float], float]:
    start = time.perf_counter()
    command = [sys.executable, "-c", program, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(number) for number in result.stdout.splitlines()[-1].split()], time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="large")
    parser.add_argument("--folder", required=True)
    arguments = parser.parse_args()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    checkpoint = random_checkpoint(arguments.size)
    start = os.path.join(arguments.folder, "start")
    write_checkpoint(checkpoint, start, "huggingface")
    megabytes = checkpoint.num_bytes / 1e6
    print(f"{arguments.size}: {megabytes:,.0f} MB of weights")
    print("| what | peak memory, MB | times the weights | seconds |\n|---|---|---|---|")
    for format in WRITERS:
        there = os.path.join(arguments.folder, format)
        back = os.path.join(arguments.folder, f"{format}_back")
        for name, source, target, into in (
            (f"huggingface -> {format}", start, there, format),
            (f"{format} -> huggingface", there, back, "huggingface"),
        ):
            (peak,), seconds = run(CONVERT, source, target, into)
            print(f"| {name} | {peak:,.0f} | {peak / megabytes:.2f} | {seconds:.1f} |", flush=True)
        shutil.rmtree(back)
        (peak, seconds, before), _ = run(LOAD, there)
        what = f"load {format} (of which {before:,.0f} MB before)"
        print(f"| {what} | {peak:,.0f} | {peak / megabytes:.2f} | {seconds:.1f} |", flush=True)
    shutil.rmtree(arguments.folder)


if __name__ == "__main__":
    main()
