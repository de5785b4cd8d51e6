"""The side `onnxruntime`: the model that `export_onnx` wrote, in ONNX Runtime on the CPU with all its optimisations."""

import onnxruntime

from benchmarks.sides.answering import Encoder, answer
from benchmarks.sides.onnx_file import onnx_inputs, onnx_path


class OnnxRuntimeEncoder(Encoder):
    def load(self, folder):
        self.session = onnxruntime.InferenceSession(onnx_path(folder), providers=["CPUExecutionProvider"])
        return f"ONNX Runtime {onnxruntime.__version__}"

    def prepare(self, batch):
        return onnx_inputs(batch)

    def run(self, prepared):
        return self.session.run(None, prepared)[0]


if __name__ == "__main__":
    answer(OnnxRuntimeEncoder())
