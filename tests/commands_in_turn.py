"""A program for tests of pages and of other backends: runs the commands that a JSON file names, in one process.

    KERAS_BACKEND=jax python tests/commands_in_turn.py FILE

The file has a list of command lines, such as ["run_ner", "--do_train", ...] or ["data_prep.split_text", ...]. Each
output ends with a line "NAME: exit code". Starting Keras takes longer than most of these commands.
"""

import importlib
import json
import sys

from absl import flags


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        commands = json.load(file)
    own = set(flags.FLAGS)
    for name, *arguments in commands:
        sys.argv, code = [name, *arguments], 0
        try:
            importlib.import_module(name if "." in name else f"run_scripts.{name}").command()
        except SystemExit as exit:
            code = exit.code
        print(f"{name}: {code}", flush=True)
        for flag in set(flags.FLAGS) - own:
            delattr(flags.FLAGS, flag)


if __name__ == "__main__":
    main()
