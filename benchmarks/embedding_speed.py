"""Measures training steps of sentence embeddings beside sentence-transformers, and the memory of a large batch.

    python -m benchmarks.embedding_speed --model=all-MiniLM-L6-v2 --other_python=/path/to/python

A step: in-batch negatives for pairs of full rows in float32, gradients clipped by their norm, AdamW, on all cores. Ours
is the function that `fit` runs for a batch. Theirs is the loss of `MultipleNegativesRankingLoss`, its backward pass and
torch's AdamW. The sides are processes that take turns of --steps steps; the first turn is not counted. The output has
the medians of pairs per second and the ratio of each turn.

With --parts the step computes the batch in this many parts (GradCache). --memory prints the largest resident memory of
our process instead, in MiB, for the batch and for a single part.

    python -m benchmarks.embedding_speed --model=static --texts=sentences.txt

measures `encode` on the lines of a file, tokenisation included. Beside the time that passes, it prints the texts per
second that the time on all processors allows, which other programs affect less.
"""

import argparse
import json
import os
import resource
import statistics
import sys
import time

import numpy as np


def make_rows(arguments):
    """Returns ids and mask, int32 `[pairs, 2, length]`; the tokens are random."""
    ids = np.random.default_rng(0).integers(1000, 30000, (arguments.pairs, 2, arguments.length)).astype(np.int32)
    ids[..., 0], ids[..., -1] = 101, 102
    return ids, np.ones_like(ids)


def our_step(arguments):
    import tensorflow as tf

    from keras_bert import AdamW, SentenceEncoder

    ids, mask = make_rows(arguments)
    model = SentenceEncoder.from_pretrained(arguments.model)
    model.compile(AdamW(2e-5), gradient_accumulation_steps=arguments.parts, jit_compile=False)
    batch = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())
    model.optimizer.build(model.trainable_variables)
    model.make_train_function()
    return lambda: model.train_function(iterator)


def their_step(arguments):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.losses import CachedMultipleNegativesRankingLoss, MultipleNegativesRankingLoss

    ids, mask = (torch.tensor(values, dtype=torch.long) for values in make_rows(arguments))
    model = SentenceTransformer(arguments.model, device="cpu").train()
    size = arguments.pairs // arguments.parts
    loss = MultipleNegativesRankingLoss(model)
    if arguments.parts > 1:
        loss = CachedMultipleNegativesRankingLoss(model, mini_batch_size=size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)

    def step():
        optimizer.zero_grad()
        columns = [{"input_ids": ids[:, column], "attention_mask": mask[:, column]} for column in (0, 1)]
        loss(columns, None).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def encode_texts(arguments) -> None:
    """Prints the texts per second of `encode`, medians over the turns after the first."""
    from keras_bert import SentenceEncoder

    model = SentenceEncoder.from_pretrained(arguments.model)
    with open(arguments.texts, encoding="utf-8") as file:
        texts = [line.rstrip("\n") for line in file]
    turns = []
    for _ in range(arguments.turns + 1):
        start = time.perf_counter(), time.process_time()
        model.encode(texts)
        seconds, of_processors = time.perf_counter() - start[0], time.process_time() - start[1]
        turns.append((len(texts) / seconds, len(texts) / of_processors * os.cpu_count()))
    passed, possible = (sorted(values) for values in zip(*turns[1:], strict=True))
    for name, rates in (("texts/s", passed), (f"texts/s on {os.cpu_count()} free processors", possible)):
        print(f"{statistics.median(rates):,.0f} {name} ({rates[0]:,.0f} to {rates[-1]:,.0f})")


def work(arguments) -> None:
    """Runs a turn for each line of input, and prints its seconds and the largest memory so far."""
    step = {"ours": our_step, "theirs": their_step}[arguments.side](arguments)
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(arguments.steps):
            step()
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a folder of sentence-transformers")
    parser.add_argument("--other_python", help="a Python that has sentence-transformers")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--texts", help="measure encode on the lines of this file instead")
    for name, value in {"pairs": 64, "length": 64, "parts": 1, "steps": 2, "turns": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--side", choices=("ours", "theirs"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side or arguments.texts:
        (work if arguments.side else encode_texts)(arguments)
        return

    from benchmarks.suite_flags import machine_lines
    from benchmarks.tables import ratio_of
    from benchmarks.workers_in_turns import end_workers, start_worker, take_turn

    def start(side, python=sys.executable, **changes):
        given = {name: getattr(arguments, name) for name in ("model", "pairs", "length", "parts", "steps")} | changes
        return start_worker(python, "benchmarks.embedding_speed", {**given, "side": side}, {})

    print(machine_lines()[0])
    if arguments.memory:
        part = {"pairs": arguments.pairs // arguments.parts, "parts": 1}
        for name, worker in (("the batch in parts", start("ours")), ("one part", start("ours", **part))):
            print(f"{name}: {take_turn(worker)['kib'] / 1024:,.0f} MiB")
            end_workers([worker])
        return
    workers = [start("ours"), start("theirs", arguments.other_python)]
    turns = [[take_turn(worker)["seconds"] for worker in workers] for _ in range(arguments.turns + 1)][1:]
    end_workers(workers)
    for name, seconds in zip(("ours", "sentence-transformers"), zip(*turns, strict=True), strict=True):
        print(f"{name}: {arguments.pairs * arguments.steps / statistics.median(seconds):.1f} pairs/s")
    ours, theirs = zip(*turns, strict=True)
    print(f"times as fast as theirs: {ratio_of(theirs, ours)}")


if __name__ == "__main__":
    main()
