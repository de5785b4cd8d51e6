"""The path of the model's ONNX file and the names of its inputs. Needs NumPy only."""

import os

import numpy as np

# Our names -> the names in the file, which are those of transformers.
INPUTS = {"input_ids": "input_ids", "input_mask": "attention_mask", "segment_ids": "token_type_ids"}


def onnx_path(folder: str) -> str:
    return os.path.join(folder, "encoder.onnx")


def onnx_inputs(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {theirs: batch[ours].astype("int64") for ours, theirs in INPUTS.items()}
