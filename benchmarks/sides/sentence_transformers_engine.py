"""The sides of `engine_speed` that are sentence-transformers, on one of its backends.

python -m benchmarks.sides.sentence_transformers_engine --backend=openvino --precision=bfloat16
"""

import contextlib
import importlib.metadata
import os
import sys
import threading

from benchmarks.sides.answering_texts import MAX_SEQ_LENGTH, TextEngine, answer_texts

# The packages of each backend whose versions are named.
PACKAGES = {"torch": ["torch"], "openvino": ["optimum-intel", "openvino"], "onnx": ["optimum-onnx", "onnxruntime"]}


class SentenceTransformersEngine(TextEngine):
    def __init__(self, backend: str, precision: str = "float32", compiled: str = ""):
        self.backend, self.precision, self.compiled = backend, precision, bool(compiled)
        # With OpenVINO, a second thread would get the error "Infer Request is busy".
        self.turn = threading.Lock() if backend == "openvino" else contextlib.nullcontext()

    def load(self, folder):
        import torch
        from sentence_transformers import SentenceTransformer

        options = {}
        if self.backend == "torch":
            options = {"dtype": getattr(torch, self.precision)}
        elif self.backend == "openvino":
            options = {
                "ov_config": {"INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[self.precision]}
            }
        path = os.path.join(folder, "model")
        self.model = SentenceTransformer(path, device="cpu", backend=self.backend, model_kwargs=options)
        self.model.max_seq_length = MAX_SEQ_LENGTH
        if self.compiled:
            self.model.compile(dynamic=True)
        names = ["sentence-transformers", "transformers", *PACKAGES[self.backend]]
        versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
        return f"{versions}, {self.precision}{', compiled' if self.compiled else ''}"

    def encode(self, texts):
        with self.turn:
            return self.model.encode(texts, show_progress_bar=False)


if __name__ == "__main__":
    answer_texts(
        SentenceTransformersEngine(**dict(argument.removeprefix("--").split("=") for argument in sys.argv[1:]))
    )
