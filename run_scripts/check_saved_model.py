"""Checks whether TensorFlow Serving can load a SavedModel, of any origin, and pad its requests.

It reads the graph and does not load it. It finds operations that servers of the given versions lack, and signatures
whose answers are wrong if the server pads requests.

Exit code 0: no serious problems; 1: errors, or with --strict warnings; 2: wrong flags, or the SavedModel cannot be
read. docs/serving_run.md lists the problems.

Examples:
  python -m run_scripts.check_saved_model saved_models/sentiment
  python -m run_scripts.check_saved_model saved_models/sentiment --strict --serving_versions=2.19
"""

import sys

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError


def define_flags() -> None:
    flags.DEFINE_bool("strict", False, "Whether warnings make the exit code 1 too.")
    flags.DEFINE_list("serving_versions", None, "Versions of TensorFlow Serving (default: 2.12 to 2.21).")


def main(path: str):
    from keras_bert.tf_serving.saved_model_check.checking import check
    from keras_bert.tf_serving.saved_model_check.served_operations import DEFAULT_VERSIONS

    arguments = flags.FLAGS
    try:
        report = check(path, arguments.serving_versions or DEFAULT_VERSIONS)
    except InputError as error:
        # In CI, "could not be checked" must differ from "was checked and has errors".
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(report)
    if not report.is_clean(arguments.strict):
        sys.exit(1)


command = command_of(main, define_flags, arguments=["PATH"])
if __name__ == "__main__":
    command()
