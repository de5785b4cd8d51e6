"""Compares vectors that other programs compute from our ONNX folders with ours, and prints a Markdown table.

    python -m benchmarks.folder_readers --init_checkpoint=MODEL --sts=STS-B/dev.tsv --node_packages=FOLDER \\
        --fastembed_python=PYTHON --sentence_transformers_python=PYTHON

FOLDER has node_modules/@huggingface/transformers; the first Python has fastembed, the second sentence-transformers and
optimum-onnx. Readers that are not named are left out. A cell has the largest difference of a number in float32, the
least cosine with 8-bit weights, and Spearman's correlation with the scores of the pairs, in float32 and in 8 bits.
"""

import json
import os
import subprocess
import tempfile

from absl import flags

from keras_bert.program.command_line import run_command

FLAGS = flags.FLAGS
NODE = """
import { pipeline, env } from "@huggingface/transformers";
import { readFileSync } from "node:fs";
const [folder, name, bits, pooling] = process.argv.slice(1);
env.allowRemoteModels = false;
env.localModelPath = folder;
const embed = await pipeline("feature-extraction", name, { dtype: bits === "8" ? "q8" : "fp32" });
const vectors = [];
for (const text of JSON.parse(readFileSync(0)))
    vectors.push((await embed([text], { pooling, normalize: true })).tolist()[0]);
console.log(JSON.stringify(vectors));
"""
FASTEMBED = """
import json, os, sys
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
folder, name, bits, pooling = sys.argv[1:]
file, sources = "onnx/model_quantized.onnx" if bits == "8" else "onnx/model.onnx", ModelSource(hf="own")
TextEmbedding.add_custom_model(
    model="own", pooling=PoolingType[pooling.upper()], normalization=True, dim=1, sources=sources, model_file=file)
found = TextEmbedding("own", specific_model_path=os.path.join(folder, name)).embed(json.load(sys.stdin))
print(json.dumps([vector.tolist() for vector in found]))
"""
SENTENCE_TRANSFORMERS = """
import json, os, sys
from sentence_transformers import SentenceTransformer
folder, name, bits, _ = sys.argv[1:]
file = {"file_name": "onnx/model_qint8_avx512_vnni.onnx" if bits == "8" else "onnx/model.onnx"}
model = SentenceTransformer(os.path.join(folder, name), backend="onnx", model_kwargs=file)
print(json.dumps(model.encode(json.load(sys.stdin), normalize_embeddings=True).tolist()))
"""


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A sentence encoder with one pooling.", required=True)
    flags.DEFINE_string("sts", None, "The table of STS-B with sentence1, sentence2 and score.", required=True)
    flags.DEFINE_string("node_packages", None, "The folder of transformers.js.")
    flags.DEFINE_string("fastembed_python", None, "A Python.")
    flags.DEFINE_string("sentence_transformers_python", None, "A Python.")
    flags.DEFINE_integer("num_pairs", None, "Compare the first pairs only.")


def main() -> None:
    import numpy as np
    from scipy.stats import spearmanr

    from benchmarks.tables import table_lines
    from data_prep.finetuning.tables import read_rows
    from keras_bert import SentenceEncoder

    rows = [row.values for row in read_rows(FLAGS.sts)][: FLAGS.num_pairs]
    texts = [row[name] for name in ("sentence1", "sentence2") for row in rows]
    model = SentenceEncoder.from_pretrained(FLAGS.init_checkpoint)
    expected = model.encode(texts, normalize=True)

    def spearman(vectors):
        cosines = (vectors[: len(rows)] * vectors[len(rows) :]).sum(axis=1)
        return spearmanr(cosines, [float(row["score"]) for row in rows]).statistic

    commands = {
        "transformers.js": (FLAGS.node_packages, ["node", "--input-type=module", "-e", NODE]),
        "fastembed": (FLAGS.fastembed_python, [FLAGS.fastembed_python, "-c", FASTEMBED]),
        "sentence-transformers": (
            FLAGS.sentence_transformers_python,
            [FLAGS.sentence_transformers_python, "-c", SENTENCE_TRANSFORMERS],
        ),
    }
    table = [["ours", "", "", f"{spearman(expected):.4f}", ""]]
    with tempfile.TemporaryDirectory() as folder:
        for name, weights in (("own", None), ("own8", "int8")):
            model.export_for_serving(os.path.join(folder, name), format="huggingface-onnx", weights=weights)
        for reader, (given, command) in commands.items():
            if given:
                found = []
                for name, bits in (("own", "32"), ("own8", "8")):
                    done = subprocess.run(
                        [*command, folder, name, bits, model.pooling[0]],
                        input=json.dumps(texts),
                        cwd=FLAGS.node_packages if reader == "transformers.js" else folder,
                        env={**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
                        stdout=subprocess.PIPE,
                        text=True,
                        check=True,
                    )
                    found.append(np.array(json.loads(done.stdout.splitlines()[-1])))
                whole, eight = found
                cosine = (eight * expected).sum(axis=1).min()
                scores = [f"{np.abs(whole - expected).max():.1e}", f"{cosine:.4f}"]
                table.append([reader, *scores, *(f"{spearman(vectors):.4f}" for vectors in found)])
    header = ["", "largest difference", "8 bits: least cosine", "Spearman", "8 bits: Spearman"]
    print("\n".join(table_lines(header, table)))


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
