"""The sides of `format_speed`: a sentence encoder in one of our formats, or torch's export of the encoder.

python -m benchmarks.sides.exported_encoder --format=onnx --weights=int8

All use two threads. The format `torch` is the file that `export_onnx` wrote, in the same ONNX Runtime.
"""

import os
import sys

import numpy as np

from benchmarks.sides.answering import Encoder, answer
from benchmarks.sides.onnx_file import onnx_inputs, onnx_path

THREADS = 2


class ExportedEncoder(Encoder):
    def __init__(self, format: str, weights: str = ""):
        self.format, self.weights = format, weights or None

    def load(self, folder):
        if self.format == "torch":
            return self._load_torch_export(folder)
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(THREADS)  # before anything is computed
        import keras_bert
        from keras_bert.serving import load
        from keras_bert.tokenization.vocabulary import Vocabulary

        model = keras_bert.SentenceEncoder.from_pretrained(folder)
        words = [f"word{number}" for number in range(5, model.config.vocab_size)]
        model.vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
        path = export_folder(folder, self.format, self.weights)
        path = model.export_for_serving(path, format=self.format, weights=self.weights)
        # TensorFlow takes its number of threads from its own settings.
        options = {} if self.format == "saved_model" else {"num_threads": THREADS}
        self.run = load(path, "onnxruntime" if self.format == "onnx" else "auto", **options).engine.run
        return f"{self.format} {self.weights or 'float32'}"

    def _load_torch_export(self, folder):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        session = onnxruntime.InferenceSession(onnx_path(folder), options, providers=["CPUExecutionProvider"])
        self.run = lambda batch: session.run(None, onnx_inputs(batch))[0]
        return f"torch's export in ONNX Runtime {onnxruntime.__version__}"

    def prepare(self, batch):
        return batch

    def to_numpy(self, outputs, batch):
        """Returns the text's vector for each of its tokens, so that sides compare `[B, S, H]`."""
        mask = batch["input_mask"][:, :, None]
        if outputs.ndim == 3:
            outputs = (outputs * mask).sum(axis=1) / mask.sum(axis=1)
            outputs = outputs / np.linalg.norm(outputs, axis=1, keepdims=True)
        return np.broadcast_to(outputs[:, None], (*mask.shape[:2], outputs.shape[-1]))


def export_folder(folder: str, format: str, weights: str | None) -> str:
    return os.path.join(folder, f"{format}-{weights or 'float32'}")


if __name__ == "__main__":
    answer(ExportedEncoder(**dict(argument.removeprefix("--").split("=") for argument in sys.argv[1:])))
