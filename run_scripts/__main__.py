"""Runs any command: keras-bert COMMAND. keras-bert --help lists the commands in the order of the data flow."""

import difflib
import importlib
import re
import sys

from run_scripts.command_names import COMMANDS, program_name


def command() -> None:
    """Runs the command that the first argument names, with the other arguments. An unknown name ends with code 2."""
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("--help", "-h", "help"):
        print(_help())
        return
    modules = {program_name(module): module for station in COMMANDS.values() for module in station}
    name = name.replace("_", "-").removeprefix("keras-bert-")
    if name not in modules:
        near = difflib.get_close_matches(name, modules, n=3) or modules
        print(
            f"keras-bert: there is no command {name!r}. Do you mean {', '.join(near)}? See keras-bert --help.",
            file=sys.stderr,
        )
        sys.exit(2)
    sys.argv = [f"keras-bert {name}", *arguments]
    importlib.import_module(modules[name]).command()


def _help() -> str:
    lines = ["keras-bert COMMAND [FLAGS] runs a command. keras-bert COMMAND --help explains it."]
    for station, modules in COMMANDS.items():
        lines += ["", f"{station}:", *(f"  {program_name(module):<28}{_summary(module)}" for module in modules)]
    return "\n".join(lines)


def _summary(module: str) -> str:
    """Returns the line about the module in the docstring of its package."""
    package, _, name = module.rpartition(".")
    return re.search(rf"^{name}\.py +(.+)$", importlib.import_module(package).__doc__, re.M)[1]


if __name__ == "__main__":
    command()
