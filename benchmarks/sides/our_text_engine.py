"""The sides of `engine_speed` that are ours: an exported folder in one of its runtimes.

python -m benchmarks.sides.our_text_engine --format=onnx --runtime=openvino --precision=bfloat16 --callers=8
"""

import os
import sys

from benchmarks.sides.answering_texts import TextEngine, answer_texts


class OurTextEngine(TextEngine):
    def __init__(self, format: str, runtime: str, precision: str = "float32", callers: str = "1"):
        self.format, self.options = format, {"runtime": runtime, "precision": precision, "callers": int(callers)}

    def load(self, folder):
        from keras_bert.serving import load

        self.model = load(os.path.join(folder, self.format), **self.options)
        return f"keras_bert, {self.model.runtime.reason}"

    def encode(self, texts):
        return self.model.encode(texts)


if __name__ == "__main__":
    answer_texts(OurTextEngine(**dict(argument.removeprefix("--").split("=") for argument in sys.argv[1:])))
