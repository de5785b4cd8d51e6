"""Writes the encoder of a folder as an ONNX file with torch's exporter, for any number of rows and columns.

python -m benchmarks.sides.export_onnx FOLDER
"""

import sys

import torch
import transformers

from benchmarks.sides.onnx_file import INPUTS, onnx_path


class LastLayer(torch.nn.Module):
    """The encoder with one output, the last layer's vectors."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.encoder(input_ids, attention_mask, token_type_ids).last_hidden_state


def export(folder: str) -> None:
    encoder = transformers.BertModel.from_pretrained(folder, attn_implementation="sdpa", add_pooling_layer=False)
    # Three separate tensors: if one tensor is passed three times, the exporter makes one input of it.
    example = tuple(torch.ones((2, 8), dtype=torch.int64) for _ in INPUTS)
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=512)}
    torch.onnx.export(
        LastLayer(encoder).eval(),
        example,
        onnx_path(folder),
        input_names=list(INPUTS.values()),
        output_names=["last_hidden_state"],
        dynamic_shapes=(axes, axes, axes),
        dynamo=True,
    )


if __name__ == "__main__":
    export(sys.argv[1])
