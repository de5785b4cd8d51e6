"""Runs the quickstart: raw text -> vocabulary -> records -> BERT -> classifier -> SavedModel -> an answer.

The text is the documentation of the Python packages in this environment, so no network is needed. The stages are the
lines of quickstart.sh, in the folder of this module. It takes about 6 minutes on two cores.

Examples:
  keras-bert-quickstart
  keras-bert-quickstart --output_dir=first_model --input_file=articles.txt

Environment variables change the sizes: VOCAB_SIZE, MAX_SEQ_LENGTH, DUPE_FACTOR, NUM_TRAIN_STEPS, NUM_TRAIN_EPOCHS,
NUM_LABELLED and SEED.
"""

import os
import sys

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_string("output_dir", "quickstart", "The output folder, which must not exist yet.")
    help = "Your own text for the pre-training. The classifier is still trained on the documentation."
    flags.DEFINE_string("input_file", None, help)


def main() -> None:
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "quickstart.sh")
    environment = {
        **os.environ,
        "KERAS_BERT_PYTHON": sys.executable,
        # A file such as keras.py in the current folder would otherwise be imported instead of the package.
        "PYTHONSAFEPATH": "1",
    }
    try:
        # The shell replaces this process, so it gets signals and sets the exit status directly.
        os.execvpe("bash", ["bash", script, FLAGS.output_dir, FLAGS.input_file or ""], environment)
    except FileNotFoundError:
        raise InputError("The quickstart is a bash script, and bash was not found. Install bash.") from None


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
