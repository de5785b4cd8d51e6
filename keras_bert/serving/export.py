"""Exports a model as a SavedModel that takes texts and needs neither Python, Keras nor this package."""

import dataclasses
import os
import tempfile
from typing import Any, Unpack

import keras
import tensorflow as tf

from keras_bert import registry
from keras_bert.accelerate.backend import require_tensorflow
from keras_bert.checkpoints.pretrained import checkpoint_of, model_of
from keras_bert.config.signature_options import ExportOptions, SignatureOptions
from keras_bert.models.shown_arguments import showing
from keras_bert.models.trainable_parts import lora_layers
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.long_work import long_work
from keras_bert.program.private_interfaces import private
from keras_bert.serving.graph.eight_bit_weights import EightBitModel
from keras_bert.serving.graph.signature_inputs import of_examples
from keras_bert.serving.graph.tokenize import tokenize_signature
from keras_bert.serving.portable.folder import (
    EXPORT_FILE,
    HUGGING_FACE_ONNX,
    SAVED_MODEL,
    check_format,
    write_description,
    write_portable,
)
from keras_bert.serving.portable.hugging_face_folder import write_hugging_face_onnx
from keras_bert.serving.portable.litert_model import write_litert
from keras_bert.serving.portable.onnx_model import write_onnx
from keras_bert.serving.portable.portable_models import (
    answer_settings,
    check_options,
    exported_task,
    padded,
    stored_kind,
)
from keras_bert.tf_serving.saved_model_check.checking import require_servable
from keras_bert.tf_serving.saved_model_check.served_operations import DEFAULT_VERSIONS
from keras_bert.tf_serving.versions import check_version_place, new_version
from keras_bert.tokenization.tokenizer import GraphForm, Tokenizer

_METHOD_NAMES = {"classify": "tensorflow/serving/classify", "regress": "tensorflow/serving/regress"}


@showing(SignatureOptions)
def export_for_serving(
    model: Any,
    path: str | os.PathLike,
    *,
    format: str = SAVED_MODEL,
    dtype: str | None = None,
    weights: str | None = None,
    core_operations: bool = False,
    **options: Unpack[ExportOptions],
) -> str:
    """Writes an export and returns its path; the arguments are those of the method `export_for_serving` of models.

    Args:
        model: a model of any task, or an `Encoder`. Its `vocabulary` must be set.
    """
    names = [field.name for field in dataclasses.fields(SignatureOptions)]
    if unknown := [name for name in options if name not in names]:
        raise InputError(f"Exports have no option {', '.join(unknown)}. Use one of: {', '.join(names)}")
    require_tensorflow("Exporting for serving", " and load the model folder there")
    checked = SignatureOptions(**options)
    with long_work(f"exporting to {os.fspath(path)}"):
        if format != SAVED_MODEL:
            return _export_portable(model, path, format, dtype, weights, core_operations, checked)
        return _export_saved_model(model, path, dtype, weights, core_operations, checked)


def _export_saved_model(
    model, path, dtype: str | None, weights, core_operations: bool, options: SignatureOptions
) -> str:
    exported_task(model)
    _check_precision(dtype, weights)
    options = _checked_options(model, options)
    check_version_place(path)
    if lora_layers(model) or dtype is not None:
        # With LoRA merged into the kernels, and with weights and computation in `dtype`.
        dtype = model.dtype_policy if dtype is None else dtype
        model = model_of(type(model), checkpoint_of(model), dtype=dtype, name=model.name)
    unpadded = padded(model, in_server=True)
    settings = answer_settings(model) | registry.export_of(model).in_graph(model, options)
    description: tuple = stored_kind(model), settings, options.max_seq_length, weights or model.compute_dtype
    if weights == "int8":
        model = EightBitModel(model)
    tokenizer = make_tokenizer(model.tokenizer, core_operations)
    signatures = all_signatures(model, tokenizer, options)
    with unpadded, new_version(path) as version, tempfile.TemporaryDirectory() as assets:
        write_description(assets, SAVED_MODEL, *description)
        with long_work(f"writing a SavedModel with {len(signatures)} signatures"):
            tf.saved_model.save(_servable(model, tokenizer, assets), version.folder, signatures=signatures)
            name_methods(version.folder)
        require_servable(version.folder, DEFAULT_VERSIONS)
    return str(version.path)


def all_signatures(model, tokenizer: GraphForm, options: SignatureOptions) -> dict:
    """Returns the signatures of a SavedModel, name -> function."""
    assert options.max_seq_length is not None  # `_checked_options` sets it
    signatures = {
        "tokenize": tokenize_signature(tokenizer.tokenize_with_offsets, model.vocabulary, options.max_seq_length),
        **registry.imported(registry.export_of(model).signatures)(model, tokenizer, options),
    }
    return {**signatures, "examples": of_examples(signatures["serving_default"])}


def _export_portable(model, path, format: str, dtype, weights, core_operations, options: SignatureOptions) -> str:
    check_format(format, weights)
    if core_operations:
        raise InputError(f"core_operations is for SavedModels. Received: format={format!r}. Leave one of them out.")
    if dtype is not None:
        raise InputError(
            f"dtype is for SavedModels. Received: format={format!r} with dtype={dtype!r}. Give weights='float16' or "
            "'int8'."
        )
    known: tuple[str, ...] = ("pooling", "normalize")
    more = ""
    if format != HUGGING_FACE_ONNX:
        known = ("max_seq_length", *known, "text_pairs")
        more = "; predict of the loaded export takes top_k and prompts as the model does"
    if unknown := [name for name in options.given() if name not in known]:
        raise InputError(
            f"Exports for {format} have no option {', '.join(unknown)}. Use one of: {', '.join(known)}{more}."
        )
    if format == HUGGING_FACE_ONNX:
        return write_hugging_face_onnx(model, path, weights, options)
    return write_portable(model, path, format, weights, options)


def make_tokenizer(tokenizer: Tokenizer, core_operations: bool = False) -> GraphForm:
    """Returns a tokenizer for the graph, whose own graphs are traced once and shared by all signatures."""
    form = tokenizer.graph(core_operations)
    texts = [tf.TensorSpec([None], tf.string, name="texts")]
    for name in ("tokenize", "tokenize_with_offsets"):
        setattr(form, name, tf.function(getattr(form, name), texts, autograph=False))
    return form


def _servable(model, tokenizer, asset_folder: str) -> tf.Module:
    """Returns the weights, the tokenizer and the files of the SavedModel."""
    # `model.export` and ExportArchive write every variable twice and drop the files (keras#23553).
    servable = tf.Module()
    is_eight_bit = isinstance(model, EightBitModel)
    servable.weights = model.stored if is_eight_bit else [weight.value for weight in model.weights]
    servable.tokenizer = tokenizer
    model.tokenizer.save(asset_folder)
    names = sorted(name for name in os.listdir(asset_folder) if name != EXPORT_FILE)
    servable.vocabulary_files = [tf.saved_model.Asset(os.path.join(asset_folder, name)) for name in names]
    servable.description = tf.saved_model.Asset(os.path.join(asset_folder, EXPORT_FILE))
    config_file = os.path.join(asset_folder, "bert_config.json")
    model.config.save(config_file)
    servable.config_file = tf.saved_model.Asset(config_file)
    return servable


def _check_precision(dtype: str | None, weights: str | None) -> None:
    if dtype not in (None, "float32", "bfloat16"):
        raise InputError(f"dtype must be float32 or bfloat16. Received: {dtype!r}")
    if weights not in (None, "int8"):
        advice = " Give dtype='bfloat16' for 16 bits." if weights == "float16" else ""
        raise InputError(f"weights must be int8 or None. Received: {weights!r}.{advice}")
    if weights == "int8" and dtype == "bfloat16":
        raise InputError("weights=int8 computes in float32. Leave out dtype=bfloat16 or weights=int8.")


def _checked_options(model, options: SignatureOptions) -> SignatureOptions:
    check_options(model, [name for name in options.given() if name != "max_seq_length"])
    if options.max_seq_length is None:
        longest = getattr(model, "max_seq_length", None) or model.config.max_sequence_length
        options = dataclasses.replace(options, max_seq_length=longest)
    model.config.check_sequence_length(options.max_seq_length)
    return options


def name_methods(version_folder: str | os.PathLike) -> None:
    """Names the methods of the signatures `classify` and `regress`, and rewrites the fingerprint.

    `tf.saved_model.save` writes the name of predict for every signature. Servers can check the names
    (`--enable_signature_method_name_check`).
    """
    from tensorflow.core.protobuf import saved_model_pb2

    path = os.path.join(version_folder, "saved_model.pb")
    with open(path, "rb") as file:
        saved_model = saved_model_pb2.SavedModel.FromString(file.read())
    signatures = saved_model.meta_graphs[0].signature_def
    for signature in _METHOD_NAMES.keys() & signatures.keys():
        signatures[signature].method_name = _METHOD_NAMES[signature]
    with atomic_file(path) as file:
        file.write(saved_model.SerializeToString(deterministic=True))
    # The fingerprint of TensorFlow has hashes of the file. There is no public function to write it.
    private("tensorflow.python.saved_model.fingerprinting_utils.write_fingerprint")(os.fspath(version_folder))


def export(model, filepath: str | os.PathLike, format: str = "tf_saved_model", verbose: bool | None = None) -> None:
    """Writes a model for features of any number of rows and any length.

    Args:
        model: a `BertModel`.
        filepath: the folder of a SavedModel, or the file of another format.
        format: Keras' name of the format: `tf_saved_model`, `litert` or `onnx`.
        verbose: whether Keras says what it wrote; by default it does not.

    Raises:
        InputError: the format is another one, or cannot hold the model.
    """
    if format not in ("tf_saved_model", "litert", "onnx"):
        raise InputError(
            f"{type(model).__name__}.export has the formats tf_saved_model, litert and onnx. Received: {format!r}. "
            "Pass input_signature to use Keras' own exporter, or call export_for_serving for a model that takes texts."
        )
    if format == "onnx":
        return write_onnx(model, filepath)
    with padded(model):
        if format == "litert":
            return write_litert(model, filepath)
        axes = [None] * len(model.feature_axes)
        features = {name: keras.InputSpec(shape=axes, dtype="int32", name=name) for name in model.feature_names}
        return keras.Model.export(model, filepath, verbose=bool(verbose), input_signature=[features])
