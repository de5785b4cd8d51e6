"""Counts texts whose ids differ between onnxruntime-extensions' BertTokenizer and ours.

python -m benchmarks.onnx_tokenizer VOCAB_FILE TEXT_FILE   (one text a line)
"""

import sys

import numpy as np
import onnxruntime
import onnxruntime_extensions
from onnx import TensorProto, helper

from keras_bert.tokenization.kinds import load_vocabulary, python_tokenizer

if __name__ == "__main__":
    vocabulary = open(sys.argv[1], encoding="utf-8").read()
    node = helper.make_node(
        "BertTokenizer",
        ["text"],
        ["ids", "types", "mask"],
        domain="ai.onnx.contrib",
        vocab_file=vocabulary,
        do_lower_case=1,
        do_basic_tokenize=1,
        tokenize_chinese_chars=1,
        strip_accents=1,
        unk_token="[UNK]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        mask_token="[MASK]",
        suffix_indicator="##",
        truncation_strategy_name="longest_first",
        max_length=-1,
    )
    outputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["L"]) for name in node.output]
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("text", TensorProto.STRING, ["N"])], outputs)
    opsets = [helper.make_opsetid("", 12), helper.make_opsetid("ai.onnx.contrib", 1)]
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    model = helper.make_model(graph, opset_imports=opsets, ir_version=7).SerializeToString()
    session = onnxruntime.InferenceSession(model, options)
    ids = {token: number for number, token in enumerate(vocabulary.split("\n"))}
    tokenizer = python_tokenizer(load_vocabulary(sys.argv[1]), True)
    texts = [line.strip() for line in open(sys.argv[2], encoding="utf-8") if line.strip()]
    differing = 0
    for text in texts:
        ours = [ids["[CLS]"], *(ids[token] for token in tokenizer.tokenize(text)), ids["[SEP]"]]
        theirs = session.run(["ids"], {"text": np.array([text], dtype=object)})[0].tolist()
        differing += ours != theirs
    print(f"{differing} of {len(texts)} texts have other ids")
