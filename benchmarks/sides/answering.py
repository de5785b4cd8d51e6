"""The protocol of a side of the forward benchmarks: a line of JSON in, a line of JSON out. Needs NumPy only.

Requests, each an object with one of these keys:

* `load`: a model folder. The side loads it and names its engine: `{"side": "torch 2.13.0"}`.
* `outputs`: batch files. The side writes its vectors of the last one to `to`.
* `time`: batch files. One run computes all of them, one after the other. Runs that begin within the first `settle`
  seconds are not counted, at least one; then runs are counted until `seconds` have passed, at least one. The report has
  the mean `seconds` of a run, and `runs`, the seconds of each. With `sweeps`, exactly this many runs are made, and all
  are counted.

A batch file is an .npz of int32 `[B, S]` with our names: input_ids, input_mask, segment_ids.
"""

import json
import os
import sys
import time

import numpy as np

NAMES = ("input_ids", "input_mask", "segment_ids")


def dtype_of_side() -> str:
    """Returns the value of --dtype, float32 by default."""
    given = [argument for argument in sys.argv if argument.startswith("--dtype=")]
    return given[-1].partition("=")[2] if given else "float32"


class Encoder:
    """The interface of a side: how one engine runs a BERT encoder."""

    def load(self, folder: str) -> str:
        """Loads the model of a folder in the Hugging Face format, and returns the name of the engine."""
        raise NotImplementedError

    def prepare(self, batch: dict[str, np.ndarray]):
        """Returns a batch in the engine's own form. This is not timed."""
        raise NotImplementedError

    def run(self, prepared):
        """Computes the last layer's vectors of a prepared batch, and returns when they are finished."""
        raise NotImplementedError

    def to_numpy(self, outputs, batch: dict[str, np.ndarray]) -> np.ndarray:
        """Converts the result of `run` to float32 `[B, S, H]`."""
        return np.asarray(outputs)


def answer(encoder: Encoder) -> None:
    """Answers requests until standard input ends."""
    # Libraries may write to standard output at any time; their output is redirected to standard error.
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
                runs = seconds_of_runs(encoder.run, [prepared[path] for path in paths], request)
                report = {"seconds": sum(runs) / len(runs), "runs": runs}
        print(json.dumps(report), file=replies, flush=True)


def seconds_of_runs(run, prepared: list, request: dict, clock=time.perf_counter) -> list[float]:
    """Returns the seconds that `run` takes for all prepared batches, of each counted run; see `time` above."""
    sweeps = request.get("sweeps")
    start = clock()
    while not sweeps:
        for batch in prepared:
            run(batch)
        if clock() - start >= request["settle"]:
            break
    times = [clock()]
    while True:
        for batch in prepared:
            run(batch)
        times.append(clock())
        count, passed = len(times) - 1, times[-1] - times[0]
        if (sweeps and count >= sweeps) or (not sweeps and passed >= request["seconds"]):
            return [end - begin for begin, end in zip(times, times[1:], strict=False)]
