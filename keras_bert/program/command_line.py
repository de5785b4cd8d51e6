"""How every command starts: flags in, one clear line and an exit code out."""

import logging
import signal
import sys
import warnings
from collections.abc import Callable, Sequence

from absl import flags

from keras_bert.program.errors import InputError, UntrainedWarning
from keras_bert.program.quiet_tensorflow import quiet_tensorflow

_HELP = ("--help", "-help", "-h", "-?", "--helpfull", "--helpshort")


def run_command(
    main: Callable[..., None],
    define_flags: Callable[[], None],
    *,
    passes_on: bool = False,
    arguments: Sequence[str] = (),
    repeated: str = "",
) -> None:
    """Defines the flags, parses the command line, runs `main()` and exits.

    `main` takes no argument and reads `absl.flags.FLAGS`; the docstring of its module is the text of `--help`. Flags
    are defined here and not when the module is imported, so that one program can import several commands: absl
    refuses two flags of one name.

    `arguments` names what must stand on the command line beside flags, in this order; `main` gets the values.
    `repeated` names what may stand there any number of times; `main` gets a list of them.

    With `passes_on`, what stands behind `--` on the command line belongs to another system: `main` gets it as a list.

    Exit codes: 0 done, 1 input that cannot be used (one line on standard error), 2 wrong flags, 130 stopped by Ctrl-C;
    143 training that SIGTERM stopped, see `training/checkpointing.py`.

    absl's own `app.run` shows no flags in `--help` when a console script starts it, prints a traceback for bad input,
    and exits with 1 for wrong flags.
    """
    flags_of_others = set(flags.FLAGS)
    define_flags()
    if any(argument in _HELP for argument in sys.argv[1:]):
        if hasattr(signal, "SIGPIPE"):  # `--help | head` closes the pipe early
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        # All that this command has defined, in whichever of its modules.
        own_flags = [name for name in flags.FLAGS if name not in flags_of_others]
        print(_help_text(sys.modules[main.__module__], own_flags))
        sys.exit(0)
    own, others = sys.argv, []
    if passes_on and "--" in sys.argv:
        place = sys.argv.index("--")
        own, others = sys.argv[:place], sys.argv[place + 1 :]
    try:
        given = flags.FLAGS(own)[1:]
        if repeated:
            given = [given]
        elif len(given) > len(arguments):
            raise flags.Error(f"Unexpected argument {given[len(arguments)]!r}. Flags are written --name=value.")
        elif len(given) < len(arguments):
            raise flags.Error(f"Expected: {' '.join(arguments)}. Missing: {' '.join(arguments[len(given) :])}.")
    except flags.Error as error:
        _fail(f"{str(error).strip()} See --help.", 2)
    quiet_tensorflow()
    _show_announcements()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UntrainedWarning)
            main(*given, others) if passes_on else main(*given)
    except InputError as error:
        _fail(str(error), 1)
    except KeyboardInterrupt:
        _fail("stopped by Ctrl-C", 130)


def refuse_flags_without_effect(has_effect: object, where: str, *names: str) -> None:
    """Refuses flags that were given although they change nothing.

    Args:
        has_effect: whether they would change something; anything that is true or false.
        where: otherwise, where they do not, in words: "without --output_dir".
        names: the flags. Those that were not given, and have their defaults, are passed over.

    Raises:
        InputError: some of them were given, with whatever value.
    """
    given = [f"--{name}" for name in names if flags.FLAGS[name].present]
    if given and not has_effect:
        verb, them = ("has", "it") if len(given) == 1 else ("have", "them")
        raise InputError(f"{', '.join(given)} {verb} no effect {where}. Leave {them} out.")


def _show_announcements() -> None:
    """Sends what this project logs, but no other library's chatter, to standard error as plain lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    for name in ("__main__", "keras_bert", "data_prep", "run_scripts"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.handlers = [handler]  # one, though a process may run several commands


def _help_text(module, names: list[str]) -> str:
    lines = [(module.__doc__ or "").strip(), "", "Flags:"]
    for name in names:
        flag = flags.FLAGS[name]
        value = flag.default_as_str.strip("'") if flag.default is not None else ""
        default = f" (default: {value})" if value else ""
        lines.append(f"  --{flag.name}{default}\n      {' '.join(flag.help.split())}")
    return "\n".join(lines)


def _fail(message: str, exit_code: int) -> None:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(exit_code)
