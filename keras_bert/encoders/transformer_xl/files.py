"""Transformer-XL in the forms of the official TensorFlow 1 code and of Hugging Face.

Both are read through one intermediate form: our names, except that `qkv/kernel` joins three kernels, `table` and
`bias` may join the clusters of the vocabulary, and `content_bias` and `distance_bias` may be of all layers.

Reference: kimiyoung/transformer-xl `tf/model.py`; transformers 4.57, `models/deprecated/transfo_xl/`.
"""

import json
import os
import reprlib
from collections.abc import Callable, Mapping

import numpy as np

from keras_bert.checkpoints import hugging_face
from keras_bert.checkpoints.checkpoint import BertCheckpoint, StoredTensor
from keras_bert.checkpoints.hugging_face_config import HARMLESS, REFUSED, fixed_values
from keras_bert.checkpoints.name_table import TRANSPOSED, NameTable, to_ours, to_theirs
from keras_bert.checkpoints.safetensors_file import write_safetensors
from keras_bert.checkpoints.tensorflow_checkpoint import write_tensorflow_checkpoint
from keras_bert.config import BertConfig
from keras_bert.encoders.transformer_xl.config import TransformerXLConfig
from keras_bert.encoders.transformer_xl.entry import FAMILY
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError, named
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member, read_json_object
from keras_bert.tokenization.stream_vocabulary import StreamVocabulary

CONFIG_FILE = "config.json"
_NAME = "transfo-xl"
_PREFIX = "model.ckpt"
# Their keys -> ours.
_KEYS = {
    "n_token": "vocab_size",
    "d_model": "hidden_size",
    "d_embed": "embedding_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "d_inner": "intermediate_size",
    "dropout": "hidden_dropout_prob",
    "dropatt": "attention_probs_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
    "share_proj": "tie_projs",  # in keras-transformer-xl
}
_SAME_KEYS = ("vocab_size", "tie_projs", "cutoffs", "div_val", "mem_len", "clamp_len", "same_length", "proj_same_dim")
# Of the keys of both forms: settings of the published models, since others would be computed differently; and flags of
# training, evaluation and the data, which change no outputs. The shapes of the weights show `untie_r`.
_KNOWN = KnownKeys(
    used=(*_KEYS, *_SAME_KEYS, "d_head", "model_type", "architectures", "proj_share_all_but_first", "test_clamp_len"),
    harmless=(
        *HARMLESS,
        *("untie_r", "init", "init_range", "init_std", "proj_init_std", "tgt_len", "tgt_len_eval", "test_tgt_len"),
        *("test_mem_len", "iterations", "learning_rate", "min_lr_ratio", "warmup_steps", "train_steps", "clip"),
        *("train_bsz", "valid_bsz", "test_bsz", "train_batch_size", "eval_batch_size", "save_steps", "run_id", "seed"),
        *("id2label", "pad_token_id"),
    ),
    fixed={
        **fixed_values(),
        "pre_lnorm": (False,),
        "attn_type": (0,),
        "sample_softmax": (-1, 0),
        "adaptive": (True,),
        "tie_weight": (True,),
        "tie_word_embeddings": (True,),
        "ext_len": (0,),
    },
    refused=REFUSED,
)
# Defaults of transformers' config class, which its files may leave out.
_HUGGING_FACE_DEFAULTS = {
    "vocab_size": 267735,
    "cutoffs": [20000, 40000, 200000],
    "d_model": 1024,
    "d_embed": 1024,
    "n_head": 16,
    "d_head": 64,
    "d_inner": 4096,
    "div_val": 4,
    "n_layer": 18,
    "mem_len": 1600,
    "clamp_len": 1000,
    "same_length": True,
    "dropout": 0.1,
    "dropatt": 0.0,
}
# The official code is run by flags; the config beside its checkpoints has their names.
_OFFICIAL_DEFAULTS = {"cutoffs": [], "div_val": 1, "layer_norm_epsilon": 1e-12, "proj_same_dim": True}

_IN_LAYERS = [
    # ours, official, Hugging Face
    ("attention/qkv/kernel", "rel_attn/qkv/kernel", "dec_attn.qkv_net.weight"),
    ("attention/distance/kernel", "rel_attn/r/kernel", "dec_attn.r_net.weight"),
    ("attention/output_dense/kernel", "rel_attn/o/kernel", "dec_attn.o_net.weight"),
    ("attention_layer_norm/gamma", "rel_attn/LayerNorm/gamma", "dec_attn.layer_norm.weight"),
    ("attention_layer_norm/beta", "rel_attn/LayerNorm/beta", "dec_attn.layer_norm.bias"),
    ("intermediate_dense/kernel", "ff/layer_1/kernel", "pos_ff.CoreNet.0.weight"),
    ("intermediate_dense/bias", "ff/layer_1/bias", "pos_ff.CoreNet.0.bias"),
    ("output_dense/kernel", "ff/layer_2/kernel", "pos_ff.CoreNet.3.weight"),
    ("output_dense/bias", "ff/layer_2/bias", "pos_ff.CoreNet.3.bias"),
    ("output_layer_norm/gamma", "ff/LayerNorm/gamma", "pos_ff.layer_norm.weight"),
    ("output_layer_norm/beta", "ff/LayerNorm/beta", "pos_ff.layer_norm.bias"),
]
_OFFICIAL = NameTable(
    [(f"encoder/layer_*/{ours}", f"transformer/layer_*/{theirs}") for ours, theirs, _ in _IN_LAYERS]
    + [
        ("encoder/content_bias", "transformer/r_w_bias"),
        ("encoder/distance_bias", "transformer/r_r_bias"),
        ("encoder/embeddings/table", "transformer/adaptive_embed/lookup_table"),
        ("encoder/embeddings/table_*", "transformer/adaptive_embed/cutoff_*/lookup_table"),
        ("encoder/embeddings/projection_*", "transformer/adaptive_embed/cutoff_*/proj_W"),
        ("encoder/softmax/bias", "transformer/adaptive_softmax/bias"),
        ("encoder/softmax/bias_*", "transformer/adaptive_softmax/cutoff_*/b"),
        ("encoder/softmax/cluster_table_*", "transformer/adaptive_softmax/cutoff_*/cluster_W"),
        ("encoder/softmax/cluster_bias", "transformer/adaptive_softmax/cutoff_0/cluster_b"),
        ("encoder/softmax/projection_*", "transformer/adaptive_softmax/cutoff_*/proj"),
    ]
)
_BIASES = ("content_bias", "distance_bias")


def _hugging_face_table(config: TransformerXLConfig) -> NameTable:
    # With div_val 1 there is one table, and one bias, for all clusters.
    kind, number = ("", ".0") if config.div_val == 1 else ("_*", ".*")
    in_layers = [
        (f"encoder/layer_*/{ours}", f"transformer.layers.*.{theirs}", TRANSPOSED if "kernel" in ours else "same")
        for ours, _, theirs in _IN_LAYERS
    ]
    return NameTable(
        [
            *in_layers,
            ("encoder/layer_*/attention/content_bias", "transformer.layers.*.dec_attn.r_w_bias"),
            ("encoder/layer_*/attention/distance_bias", "transformer.layers.*.dec_attn.r_r_bias"),
            ("encoder/content_bias", "transformer.r_w_bias"),
            ("encoder/distance_bias", "transformer.r_r_bias"),
            (f"encoder/embeddings/table{kind}", f"transformer.word_emb.emb_layers{number}.weight"),
            ("encoder/embeddings/projection_*", "transformer.word_emb.emb_projs.*", TRANSPOSED),
            (f"encoder/softmax/bias{kind}", f"crit.out_layers{number}.bias"),
            ("encoder/softmax/cluster_table_0", "crit.cluster_weight"),
            ("encoder/softmax/cluster_bias", "crit.cluster_bias"),
            ("encoder/softmax/projection_*", "crit.out_projs.*", TRANSPOSED),
        ]
    )


def read_hugging_face(path: str, trust_pickle: bool = False) -> BertCheckpoint:
    """Reads a folder that transformers wrote. Raises `InputError` if a file is damaged or a setting not supported."""
    file = os.path.join(path, CONFIG_FILE)
    values = {**_HUGGING_FACE_DEFAULTS, **read_json_object(file)}
    if "tie_projs" not in values:
        tied = member(values, "proj_share_all_but_first", bool, file, True)
        values["tie_projs"] = [False] + [tied] * len(_cutoffs(values, file))
    config = _config({**values, "proj_same_dim": values["div_val"] != 1}, file)
    weights_path, stored, is_tensorflow = hugging_face.read_weights(path, trust_pickle)
    if is_tensorflow:
        _check_tied(weights_path, stored, config)
    tensors, ignored = _named(weights_path, stored, _hugging_face_table(config), config)
    return _checkpoint(path, "Hugging Face TransfoXLLMHeadModel", config, tensors, ignored)


def _check_tied(path: str, stored: Mapping[str, StoredTensor], config: TransformerXLConfig) -> None:
    """Raises `InputError` if a softmax has other tables than the embeddings. TensorFlow's class trains both."""
    for number, cluster in enumerate(config.clusters):
        names = {f"crit.out_layers.{number}.weight": f"transformer.word_emb.emb_layers.{number}.weight"}
        if cluster.is_tied:
            names[f"crit.out_projs.{number}"] = f"transformer.word_emb.emb_projs.{number}"
        for name, shared in names.items():
            found = [stored[one].read() for one in (name, shared) if one in stored]
            if len(found) == 2 and not np.array_equal(*found):
                raise InputError(
                    f"{path}: {name} and {shared} differ, as after a training in TensorFlow. Only a Transformer-XL "
                    "whose softmax has the tables of the embeddings can be read."
                )


def read_official(prefix: str, variables: Mapping[str, StoredTensor]) -> BertCheckpoint:
    """Returns the checkpoint of variables of the official code, with the `config.json` beside them.

    Raises `InputError` if there is no config, the variables do not fit it, or it has a setting that is not supported.
    """
    file = os.path.join(os.path.dirname(prefix), CONFIG_FILE)
    if not os.path.isfile(file):
        raise InputError(
            f"There is no config file {file}. Write one with the flags that the model was trained with: "
            f"{', '.join((*_KEYS, *_SAME_KEYS))}"
        )
    config = _config({**_OFFICIAL_DEFAULTS, **read_json_object(file)}, file)
    tensors, ignored = _named(prefix, variables, _OFFICIAL, config)
    slots = [name for name in ignored if name.endswith(("/Adam", "/Adam_1", "_power")) or name == "global_step"]
    ignored = [name for name in ignored if name not in slots]
    ignored += [f"{len(slots)} variables of the optimizer"] if slots else []
    return _checkpoint(prefix, "official TensorFlow 1 Transformer-XL", config, tensors, ignored)


def writer(format: str) -> Callable[[BertCheckpoint, str], list[str]]:
    """Returns the function that writes a Transformer-XL in a format other than ours."""
    return _write_official if format == "google" else _write_hugging_face


def _write_official(checkpoint: BertCheckpoint, folder: str) -> list[str]:
    config = checkpoint.config
    tensors = _joined(checkpoint.tensors, config, joins_bias=not config.cutoffs, joins_layers=True)
    variables = {_OFFICIAL.theirs(name)[0]: tensor for name, tensor in tensors.items()}
    _write_config(checkpoint, folder, {"untie_r": True})
    write_tensorflow_checkpoint(os.path.join(folder, _PREFIX), variables)
    return []


def _write_hugging_face(checkpoint: BertCheckpoint, folder: str) -> list[str]:
    config = checkpoint.config
    if config.proj_same_dim != (config.div_val > 1):
        raise InputError(
            "transformers projects all embeddings if div_val is above 1, else none. This model has proj_same_dim="
            f"{config.proj_same_dim} and div_val={config.div_val}. Use format='keras_bert' or 'google'."
        )
    table = _hugging_face_table(config)
    tensors = _joined(checkpoint.tensors, config, joins_bias=config.div_val == 1, joins_layers=False)
    found = ((*table.theirs(name), tensor) for name, tensor in tensors.items())
    written = {theirs: to_theirs(tensor, layout) for theirs, layout, tensor in found}
    values = {"architectures": ["TransfoXLLMHeadModel"], "model_type": _NAME, "untie_r": True}
    _write_config(checkpoint, folder, values)
    with atomic_file(os.path.join(folder, hugging_face.SAFETENSORS_FILE)) as file:
        write_safetensors(file, written, {"format": "pt"})
    return []


def _write_config(checkpoint: BertCheckpoint, folder: str, others: dict) -> None:
    config = checkpoint.config
    values = {theirs: getattr(config, ours) for theirs, ours in _KEYS.items() if theirs != "share_proj"}
    values |= {name: getattr(config, name) for name in _SAME_KEYS}
    values = {**values, "d_head": config.head_size, **others}
    with atomic_file(os.path.join(folder, CONFIG_FILE)) as file:
        file.write((json.dumps(values, indent=2) + "\n").encode())
    if checkpoint.vocabulary is not None:
        checkpoint.vocabulary.save(folder)


def _cutoffs(values: Mapping, file: str) -> list:
    """Returns the cutoffs without 0 and the size of the vocabulary, which some files add."""
    ends = (0, values.get("vocab_size", values.get("n_token")))
    return [cutoff for cutoff in member(values, "cutoffs", list, file, []) if cutoff not in ends]


def _config(values: Mapping, file: str) -> TransformerXLConfig:
    _KNOWN.check(values, file)
    cutoffs = _cutoffs(values, file)
    ours = {"model_type": _NAME, **FAMILY.defaults}
    ours |= {_KEYS.get(name, name): value for name, value in values.items() if name in _KEYS or name in _SAME_KEYS}
    ours["cutoffs"] = cutoffs
    ours["clamp_len"] = member(values, "clamp_len", int, file, member(values, "test_clamp_len", int, file, -1))
    ours["clamp_len"] = ours["clamp_len"] if ours["clamp_len"] > 0 else -1
    tied = ours.pop("tie_projs", None)
    if isinstance(tied, bool):
        tied = [tied] * (len(cutoffs) + 1)
    elif isinstance(tied, list):  # a value for each of the ends of clusters, or for each cluster
        tied = tied[: len(cutoffs) + 1]
    with named(file):
        config = BertConfig.from_dict({**ours, "tie_projs": tied})
    head_size = values.get("d_head", config.head_size)
    if head_size != config.head_size:
        raise InputError(
            f"{file}: d_head={reprlib.repr(head_size)} and n_head={config.num_attention_heads} do not make d_model="
            f"{config.hidden_size}. Only models whose heads fill the layers are supported."
        )
    return config


def _checkpoint(path, kind, config, tensors, ignored) -> BertCheckpoint:
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    vocabulary = StreamVocabulary.find(folder)
    return BertCheckpoint(path, kind, config, vocabulary, tensors, ignored=tuple(ignored))


def _named(
    where: str, stored: Mapping[str, StoredTensor], table: NameTable, config: TransformerXLConfig
) -> tuple[dict[str, StoredTensor], list[str]]:
    """Returns our name -> tensor in our layout, and the unknown names."""
    tied = [number for number, cluster in enumerate(config.clusters) if cluster.is_tied]
    copies = {f"encoder/softmax/projection_{number}" for number in tied}
    tensors, ignored = {}, []
    for name, tensor in stored.items():
        ours = table.ours(name.removeprefix("module."))
        if ours is None:
            is_copy = name.startswith("crit.out_layers.") or name == "transformer.pos_emb.inv_freq"
            ignored += [] if is_copy else [name]
        elif ours[0] not in copies:
            tensors |= _divided(where, name, ours[0], to_ours(tensor, ours[1]), config)
    return tensors, ignored


def _divided(where, theirs: str, name: str, tensor: StoredTensor, config: TransformerXLConfig) -> dict:
    """Returns the parts of a tensor that joins several of ours, or the tensor itself."""
    width, parts = config.hidden_size, {}
    folder, _, kind = name.rpartition("/")
    if name in ("encoder/embeddings/table", "encoder/softmax/bias"):
        expected = (config.vocab_size, *((config.embedding_size,) if kind == "table" else ()))
        for number, cluster in enumerate(config.clusters):
            rows = slice(cluster.start, cluster.start + cluster.size)
            shape = (cluster.size, *expected[1:])
            parts[f"{name}_{number}"] = tensor.changed(shape, lambda array, rows=rows: array[rows])
    elif name.endswith("/qkv/kernel"):
        expected = (width, 3 * width)
        for number, dense in enumerate(("query", "key", "value")):
            columns = slice(number * width, (number + 1) * width)
            ours = name.replace("/qkv/", f"/{dense}/")
            parts[ours] = tensor.changed((width, width), lambda array, columns=columns: array[:, columns])
    elif folder == "encoder" and kind in _BIASES:
        expected = (config.num_attention_heads, config.head_size)
        is_of_layers = len(tensor.shape) == 3
        for number in range(config.num_hidden_layers):
            ours = f"encoder/layer_{number}/attention/{kind}"
            parts[ours] = tensor.changed(
                expected, lambda array, number=number: array[number] if is_of_layers else array
            )
        expected = (config.num_hidden_layers, *expected) if is_of_layers else expected
    else:
        return {name: tensor}
    if tensor.shape != expected:
        raise InputError(
            f"{where}: {theirs} has the shape {list(tensor.shape)}, but its config requires {list(expected)}. The "
            "config belongs to another checkpoint, or the file is damaged."
        )
    return parts


def _joined(
    tensors: Mapping[str, StoredTensor], config: TransformerXLConfig, joins_bias: bool, joins_layers: bool
) -> dict[str, StoredTensor]:
    """Reverses `_divided`: joins kernels always, tables if all have one width, and the biases if wanted."""
    joined, clusters = dict(tensors), range(len(config.clusters))

    def join(name, parts, axis=0, stacks=False):
        found = [joined.pop(part) for part in parts]
        shape = list(found[0].shape)
        if stacks:
            shape.insert(0, len(found))
        else:
            shape[axis] = sum(tensor.shape[axis] for tensor in found)
        put = np.stack if stacks else np.concatenate
        joined[name] = StoredTensor(
            tuple(shape), found[0].dtype, lambda: put([tensor.read() for tensor in found], axis=axis)
        )

    for number in range(config.num_hidden_layers):
        attention = f"encoder/layer_{number}/attention"
        join(f"{attention}/qkv/kernel", [f"{attention}/{one}/kernel" for one in ("query", "key", "value")], axis=1)
    if config.div_val == 1 or not config.cutoffs:
        join("encoder/embeddings/table", [f"encoder/embeddings/table_{number}" for number in clusters])
    if joins_bias:
        join("encoder/softmax/bias", [f"encoder/softmax/bias_{number}" for number in clusters])
    for bias in _BIASES if joins_layers else ():
        layers = range(config.num_hidden_layers)
        join(f"encoder/{bias}", [f"encoder/layer_{number}/attention/{bias}" for number in layers], stacks=True)
    return joined
