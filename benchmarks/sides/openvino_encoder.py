"""The side `openvino`: the model that `export_onnx` wrote, compiled by OpenVINO for the CPU in float32."""

import openvino

from benchmarks.sides.answering import Encoder, answer
from benchmarks.sides.onnx_file import onnx_inputs, onnx_path


class OpenVinoEncoder(Encoder):
    def load(self, folder):
        # Left to itself it would compute in bfloat16 where the processor can.
        settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        model = openvino.Core().compile_model(onnx_path(folder), "CPU", settings)
        self.request = model.create_infer_request()
        return f"OpenVINO {openvino.__version__}"

    def prepare(self, batch):
        return onnx_inputs(batch)

    def run(self, prepared):
        return self.request.infer(prepared, share_inputs=True, share_outputs=True)[0]


if __name__ == "__main__":
    answer(OpenVinoEncoder())
