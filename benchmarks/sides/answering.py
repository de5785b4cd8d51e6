"""How a side of the forward benchmarks talks: a line of JSON in, a line of JSON out. Needs NumPy only.

Requests, each an object with one of these keys:

* `load`: a folder of a model. The side makes ready to run it, and says what it is: `{"side": "torch 2.13.0"}`.
* `outputs`: batch files. The vectors that it makes of the last of them are written to `to`.
* `time`: batch files, run one after the other. Not counted are runs of all of them that begin within the first
  `settle` seconds, the first run at least; then runs are counted until `seconds` have passed, one at least. It reports
  the `seconds` of one run of all, a mean. With `sweeps` there are so many counted runs, and no others.

A batch file is an .npz of int32 `[B, S]` with our names: input_ids, input_mask, segment_ids.
"""

import json
import os
import sys
import time

import numpy as np

NAMES = ("input_ids", "input_mask", "segment_ids")


class Encoder:
    """One engine's way of running a BERT encoder: what `answer` asks of a side."""

    def load(self, folder: str) -> str:
        """Makes ready to run the model of a folder in the Hugging Face format, and says which engine it is."""
        raise NotImplementedError

    def prepare(self, batch: dict[str, np.ndarray]):
        """Returns a batch in the engine's own form. This is not timed."""
        raise NotImplementedError

    def run(self, prepared):
        """Computes the last layer's vectors of a prepared batch, and returns when they are there."""
        raise NotImplementedError

    def to_numpy(self, outputs, batch: dict[str, np.ndarray]) -> np.ndarray:
        """Returns what `run` returned as float32 `[B, S, H]`."""
        return np.asarray(outputs)


def answer(encoder: Encoder) -> None:
    """Answers requests until standard input ends."""
    # Libraries write to standard output when they like: what they write goes to standard error instead.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    batches, prepared = {}, {}
    for line in sys.stdin:
        request = json.loads(line)
        if "load" in request:
            batches, prepared = {}, {}
            report = {"side": encoder.load(request["load"])}
        else:
            paths = request.get("time") or request["outputs"]
            for path in paths:
                if path not in batches:
                    with np.load(path) as columns:
                        batches[path] = {name: columns[name] for name in NAMES}
                    prepared[path] = encoder.prepare(batches[path])
            if "outputs" in request:
                outputs = encoder.to_numpy(encoder.run(prepared[paths[-1]]), batches[paths[-1]])
                np.save(request["to"], np.asarray(outputs, "float32"))
                report = {"shape": list(outputs.shape)}
            else:
                report = {"seconds": seconds_of_a_run(encoder.run, [prepared[path] for path in paths], request)}
        print(json.dumps(report), file=replies, flush=True)


def seconds_of_a_run(run, prepared: list, request: dict, clock=time.perf_counter) -> float:
    """Returns the mean seconds that `run` takes for all prepared batches; see `time` above."""
    sweeps = request.get("sweeps")
    start = clock()
    while not sweeps:
        for batch in prepared:
            run(batch)
        if clock() - start >= request["settle"]:
            break
    start, count = clock(), 0
    while True:
        for batch in prepared:
            run(batch)
        count += 1
        passed = clock() - start
        if (sweeps and count >= sweeps) or (not sweeps and passed >= request["seconds"]):
            return passed / count
