"""Writes `tests/family_golden/tensorflow_classes.tar.xz`: small models of transformers' TensorFlow classes.

    TF_USE_LEGACY_KERAS=1 python tests/parity/record_tensorflow_classes.py

It was run with transformers 4.57.6, tf-keras 2.21 and TensorFlow 2.21. The weights are multiples of 1/64, which keeps
the archive small. Each folder has the files of `save_pretrained`, and `outputs.npz` with the inputs and outputs.
"""

import pathlib
import sys
import tempfile

import numpy as np
import transformers
from transformers.models.deprecated.transfo_xl import TransfoXLConfig
from transformers.models.deprecated.transfo_xl.modeling_tf_transfo_xl import TFTransfoXLLMHeadModel

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from recorded_folders import TENSORFLOW_CLASSES, pack

SIZES = {"vocab_size": 40, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 12, "max_position_embeddings": 16}
DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 8}
DEBERTA |= {"position_biased_input": True, "type_vocab_size": 2, "conv_kernel_size": 3, "conv_act": "gelu"}
DEBERTA |= {"norm_rel_ebd": "layer_norm", "num_labels": 3, "pooler_hidden_size": 8}
TRANSFORMER_XL = {"vocab_size": 40, "cutoffs": [16, 28], "d_model": 8, "d_embed": 8, "n_head": 2, "d_head": 4}
TRANSFORMER_XL |= {"d_inner": 12, "n_layer": 1, "mem_len": 4, "clamp_len": 10, "div_val": 2}
DIVIDED = {"max_shard_size": "3KB"}
SAFETENSORS = {"safe_serialization": True}
# Class -> values of the config, arguments of `save_pretrained`.
MODELS = {
    "BertForPreTraining": ({**SIZES, "max_position_embeddings": 128}, {}),
    "DebertaV2ForSequenceClassification": ({**SIZES, **DEBERTA}, DIVIDED),
    "AlbertForMaskedLM": ({**SIZES, "embedding_size": 4}, SAFETENSORS),
    "MobileBertForMaskedLM": (
        {**SIZES, "embedding_size": 4, "intra_bottleneck_size": 4, "num_hidden_layers": 1},
        SAFETENSORS,
    ),
    "MPNetForSequenceClassification": ({**SIZES, "pad_token_id": 1, "num_labels": 3}, {**SAFETENSORS, **DIVIDED}),
    "TransfoXLLMHeadModel": (TRANSFORMER_XL, {}),
}


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for name, (values, arguments) in MODELS.items():
            write_model(folder / name, name, values, arguments)
        pack(folder, TENSORFLOW_CLASSES)


def write_model(folder, name, values, arguments):
    if name.startswith("TransfoXL"):
        model = TFTransfoXLLMHeadModel(TransfoXLConfig(**values))
    else:
        model_class = getattr(transformers, f"TF{name}")
        model = model_class(model_class.config_class(**values))
    inputs = {"input_ids": np.random.RandomState(1).randint(4, 40, (2, 7)).astype("int32")}
    if not name.startswith("TransfoXL"):
        inputs["attention_mask"] = (np.arange(7) < np.array([[7], [5]])).astype("int32")
        inputs["input_ids"][inputs["attention_mask"] == 0] = model.config.pad_token_id
    model(inputs)
    draw_weights(model)
    outputs = {key: values.numpy() for key, values in model(inputs).items() if hasattr(values, "numpy")}
    model.save_pretrained(folder, **arguments)
    np.savez(folder / "outputs.npz", **inputs, **outputs)


def draw_weights(model):
    generator = np.random.RandomState(0)
    variables = {variable.name.partition("/")[2]: variable for variable in model.weights}
    for name, variable in variables.items():
        values = generator.randint(-16, 17, variable.shape) / 64
        if name == "mobilebert/embeddings/word_embeddings/weight:0":
            values[0] = 0  # our padding is zeros, whatever was trained
        shared = name.replace("crit/out_", "transformer/word_emb/emb_").replace("_._weight:", "/embeddings:")
        is_shared = name.startswith(("crit/out_projs_._1", "crit/out_projs_._2")) or name.endswith("_._weight:0")
        variable.assign(variables[shared] if is_shared else values + name.endswith("gamma:0"))


if __name__ == "__main__":
    main()
