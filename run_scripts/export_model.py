"""Exports a model folder as a SavedModel for TensorFlow Serving: text in, answer out; or for LiteRT or ONNX Runtime.

saved_models/README.md describes the answers of each kind of model, docs/runtimes.md the other formats, and
docs/run_elsewhere.md the folders for transformers.js, fastembed and other programs (--format=huggingface-onnx).

Examples:
  python -m run_scripts.export_model --model_dir=models/sentiment --output_dir=saved_models/sentiment
  python -m run_scripts.export_model --model_dir=all-MiniLM-L6-v2 --output_dir=saved_models/embeddings \
      --weights=int8
  python -m run_scripts.export_model --model_dir=models/sentiment --output_dir=exports/sentiment --format=litert
"""

from absl import flags

from keras_bert.config.signature_options import SignatureOptions
from keras_bert.program.command_line import command_of
from keras_bert.program.option_flags import define_option_flags, flags_by_name, given_values


def define_flags() -> None:
    flags.DEFINE_string("model_dir", None, "The model folder, or a checkpoint of any format.", required=True)
    help = "The folder of the versions 1, 2, ..., where a new one is made; with another --format, a new folder."
    flags.DEFINE_string("output_dir", None, help, required=True)
    formats = ["saved_model", "litert", "onnx", "huggingface-onnx"]
    flags.DEFINE_enum("format", "saved_model", formats, "For which runtime.")
    help = "What to make of a checkpoint; the default is what was saved."
    flags.DEFINE_enum("model_class", None, ["encoder", "sentence_encoder", "masked_lm"], help)
    help = "The dtype of the weights and the computation; bfloat16 halves the size."
    flags.DEFINE_enum("dtype", None, ["float32", "bfloat16"], help)
    help = "Stores matrices with 8 bits, with which LiteRT and ONNX also multiply; or, for these two, with 16."
    flags.DEFINE_enum("weights", None, ["float16", "int8"], help)
    help = "Uses core TensorFlow operations only, so that the model needs no tensorflow-text. Slower on texts."
    flags.DEFINE_bool("core_operations", False, help)
    define_option_flags(SignatureOptions, has_defaults=False)


def main():
    from keras_bert.program.atomic_output import check_output_folder
    from keras_bert.tf_serving.versions import check_version_place

    arguments = flags.FLAGS
    check_place = check_version_place if arguments.format == "saved_model" else check_output_folder
    check_place(arguments.output_dir)

    from keras_bert.checkpoints.pretrained import from_pretrained
    from keras_bert.models.encoder_base import Encoder
    from keras_bert.serving.export import export_for_serving
    from keras_bert.tasks.embedding.model import SentenceEncoder
    from keras_bert.tasks.masked_lm.model import MaskedLM

    classes = {None: None, "encoder": Encoder, "sentence_encoder": SentenceEncoder, "masked_lm": MaskedLM}
    model = from_pretrained(classes[arguments.model_class], arguments.model_dir)
    how = flags_by_name("format", "core_operations", "dtype", "weights") | given_values(SignatureOptions)
    version = export_for_serving(model, arguments.output_dir, **how)
    print(f"{type(model).__name__} exported to {version}")


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
