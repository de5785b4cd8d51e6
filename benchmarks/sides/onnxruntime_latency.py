"""The sides of ONNX Runtime in the benchmark of serving: the encoder that `export_onnx` wrote, as it is or in 8 bits.

Requests are those of `saved_model_c_api`: `load` a folder, with `int8` for ONNX Runtime's own dynamic quantisation of
all that it can quantise; and `calls` with a batch. `values` are the mean vectors of the rows, of length 1.
"""

import json
import os
import sys
import time

import numpy as np
import onnxruntime

from benchmarks.sides.onnx_file import onnx_inputs, onnx_path


def load(folder: str, int8: bool) -> onnxruntime.InferenceSession:
    path = onnx_path(folder)
    if int8:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        path, original = f"{path}.int8.onnx", path
        quantize_dynamic(original, path, weight_type=QuantType.QInt8, per_channel=True)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    session = None
    for line in sys.stdin:
        request = json.loads(line)
        if "load" in request:
            session = load(request["load"], request.get("int8", False))
            report = {"side": f"ONNX Runtime {onnxruntime.__version__}"}
        else:
            ids = np.array(request["batch"]["input_ids"])
            inputs = onnx_inputs({"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)})
            milliseconds = []
            for _ in range(request["calls"]):
                begin = time.perf_counter()
                [vectors] = session.run(None, inputs)
                milliseconds.append(1000 * (time.perf_counter() - begin))
            means = vectors.mean(axis=1)
            values = means / np.linalg.norm(means, axis=1, keepdims=True)
            report = {"milliseconds": milliseconds, "values": values.tolist()}
        print(json.dumps(report), file=replies, flush=True)


if __name__ == "__main__":
    main()
