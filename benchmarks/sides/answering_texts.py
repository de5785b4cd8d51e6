"""The protocol of a side of `engine_speed`: a line of JSON in, a line of JSON out. Needs NumPy only.

Requests, each an object with one of these keys:

* `load`: the folder of a model, or of an export. The side loads it and names its engine: `{"side": "torch 2.13.0"}`.
* `outputs`: a file of texts, a JSON list. The side writes their vectors, float32 `[texts, D]`, to `to`.
* `time`: a file of texts, and `way`, one of `WAYS`. The report has the mean `seconds` for all texts, and `runs`, the
  seconds of each call. With `seconds` in the request, calls are repeated until they have passed.
"""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

THREADS, CALL = 8, 32
# Longer texts are cut.
MAX_SEQ_LENGTH = 256
WAYS = ("one call", f"calls of {CALL}", f"{THREADS} threads")


class TextEngine:
    """The interface of a side: texts in, vectors out, tokenising included."""

    def load(self, folder: str) -> str:
        """Loads a model, and returns the name of the engine."""
        raise NotImplementedError

    def encode(self, texts: list[str]) -> np.ndarray:
        """Returns the vectors of texts, float32 `[texts, D]`. Threads call it at the same time."""
        raise NotImplementedError


def answer_texts(engine: TextEngine) -> None:
    """Answers requests until standard input ends."""
    # Libraries may write to standard output at any time; their output is redirected to standard error.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        if "load" in request:
            report = {"side": engine.load(request["load"])}
        elif "outputs" in request:
            vectors = np.asarray(engine.encode(_texts(request["outputs"])), "float32")
            np.save(request["to"], vectors)
            report = {"shape": list(vectors.shape)}
        else:
            report = timed(engine.encode, _texts(request["time"]), request)
        print(json.dumps(report), file=replies, flush=True)


def timed(encode: Callable, texts: list[str], request: dict, clock=time.perf_counter) -> dict:
    """Returns the report of a request `time`."""

    def seconds_of(call: list[str]) -> float:
        start = clock()
        encode(call)
        return clock() - start

    if request["way"] == WAYS[0]:
        calls = [texts]
    elif request["way"] == WAYS[1]:
        calls = [texts[start : start + CALL] for start in range(0, len(texts), CALL)]
    else:
        start = clock()
        runs = _in_threads(seconds_of, [[text] for text in texts])
        return {"seconds": clock() - start, "runs": runs}
    runs = [seconds_of(call) for call in calls]
    while sum(runs) < request.get("seconds", 0):
        runs += [seconds_of(call) for call in calls]
    return {"seconds": sum(runs) * len(calls) / len(runs), "runs": runs}


def _in_threads(work: Callable, tasks: Sequence) -> list:
    waiting, done = queue.SimpleQueue(), []
    for task in tasks:
        waiting.put(task)

    def run():
        while True:
            try:
                task = waiting.get_nowait()
            except queue.Empty:
                return
            done.append(work(task))

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(done) < len(tasks):
        raise RuntimeError("a thread failed")
    return done


def _texts(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        return json.load(file)
