"""Opens the models that a command asks: checkpoints with Keras, or exported folders without Keras and TensorFlow."""

from collections.abc import Collection
from typing import Any

from absl import flags

from keras_bert.config import POOLINGS
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_flag

RUNTIMES = ("auto", "onnxruntime", "openvino", "litert", "tensorflow")


def define_runtime_flags(precision_flag: str | None = "precision") -> None:
    """Defines --runtime, and the flag of the precision under a name; None if another flag has it."""
    help = "What computes an exported folder; auto takes OpenVINO if it is installed, see docs/runtimes.md."
    flags.DEFINE_enum("runtime", "auto", RUNTIMES, help)
    if precision_flag:
        help = "The precision in which an exported folder is computed; auto takes bfloat16 if the processor has it."
        flags.DEFINE_enum(precision_flag, "float32", ["float32", "bfloat16", "auto"], help)


def define_vector_flags(
    default_length: str = "as the model's folder says, or all of its positions", *, has_pooling: bool = True
) -> None:
    """Defines the flags of commands that make vectors of texts; `default_length` is said in the help."""
    if has_pooling:
        pooling_help = "How token vectors are pooled. Default: as the folder says, or mean."
        flags.DEFINE_enum("pooling", None, POOLINGS, pooling_help)
    length_help = f"Longer texts are cut to this many tokens. Default: {default_length}."
    define_flag("max_seq_length", None, length_help, at_least=3)
    define_batch_size_flag()


def define_batch_size_flag() -> None:
    define_flag("batch_size", 32, "Number of texts per batch.", at_least=1)


def define_casing_flag() -> None:
    flags.DEFINE_bool("do_lower_case", None, "The casing, if the checkpoint does not state it or states it wrongly.")


def open_model(kind: str, path: str, precision_flag: str = "precision", **arguments: Any) -> Any:
    """Returns the model at `path`, which computes as the flags of `define_runtime_flags` say.

    `kind` is a key of `registry.TASKS`, and `path` an exported folder or a checkpoint of any format. `**arguments` are
    those of the Keras model's constructor; exports have their own. Raises `InputError` if there is no such model, or
    flags have no effect on it.
    """
    from keras_bert import registry
    from keras_bert.serving.portable.loading import load_kind

    if not takes_runtime_flags(path, precision_flag, arguments):
        return registry.imported(registry.task(kind).model).from_pretrained(path, **arguments)
    return load_kind([kind], path, runtime=flags.FLAGS.runtime, precision=flags.FLAGS[precision_flag].value)


def takes_runtime_flags(path: str, precision_flag: str = "precision", arguments: Collection[str] = ()) -> bool:
    """Returns whether a path is an export. Raises `InputError` for flags, or constructor arguments, without effect."""
    from keras_bert.serving.portable.loading import is_export

    if not is_export(path):
        refuse_runtime_flags(path, "runtime", precision_flag)
        return False
    if arguments:
        raise InputError(f"The export {path} has its own {', '.join(arguments)}. Leave --{next(iter(arguments))} out.")
    return True


def refuse_runtime_flags(path: str | None, *names: str) -> None:
    """Raises `InputError` if one of these flags is given, for a model that is no export."""
    given = next((name for name in names if flags.FLAGS[name].present), None)
    if given:
        raise InputError(
            f"--{given} is for exported folders, and {path or 'the model of the run'} is none. Leave it out, or export "
            f"the model first: export_model --model_dir={path or 'FOLDER'} --output_dir=exports/x --format=onnx"
        )


def define_reranker_flags(num_candidates: int) -> None:
    """Defines the flags; `num_candidates` is the default of that name."""
    help = "A checkpoint or an export of a CrossEncoder or MultiVectorEncoder, which ranks again what is found."
    flags.DEFINE_string("reranker", None, help)
    define_flag("num_candidates", num_candidates, "How many texts it ranks for each query.", at_least=1)


def load_reranker() -> Any:
    """Returns the model of --reranker: a `MultiVectorEncoder` if its files say so, else a `CrossEncoder`; or None."""
    if not flags.FLAGS.reranker:
        return None
    from keras_bert.serving.portable.loading import is_export, load_kind

    if is_export(flags.FLAGS.reranker):
        return load_kind(["CrossEncoder", "MultiVectorEncoder"], flags.FLAGS.reranker)
    from keras_bert.checkpoints.formats import read_checkpoint
    from keras_bert.checkpoints.pretrained import model_of
    from keras_bert.tasks.multi_vector.model import MultiVectorEncoder
    from keras_bert.tasks.ranking.model import CrossEncoder

    checkpoint = read_checkpoint(flags.FLAGS.reranker)
    return model_of(MultiVectorEncoder if checkpoint.tells("MultiVectorEncoder") else CrossEncoder, checkpoint)


def read_texts(path: str) -> list[str]:
    """Returns the lines of a file without the white space around them; empty lines are texts too."""
    try:
        with open(path, encoding="utf-8") as file:
            texts = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read the texts in {path}: {error}.") from None
    if not texts:
        raise InputError(f"{path} is empty. It must hold one text a line.")
    return texts
