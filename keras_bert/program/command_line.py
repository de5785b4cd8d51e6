"""Starts every command: parses its flags, prints errors as one line, and returns an exit code."""

import contextlib
import functools
import importlib.util
import inspect
import logging
import os
import pathlib
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from typing import Any

from absl import flags

from keras_bert.program.errors import InputError, UntrainedWarning, how_to_install
from keras_bert.program.printing import PrintableStream
from keras_bert.program.quiet_tensorflow import quiet_tensorflow
from keras_bert.program.removed_flags import instead_of

# A package with tasks or families of its own names the module that registers them under this group of entry points.
_GROUP = "keras_bert"
_command: str | None = None
_BACKENDS = ("tensorflow", "jax", "torch", "openvino", "numpy")  # those that Keras knows; the first two train here
_HELP = ("--help", "-help", "-h", "-?", "--helpfull", "--helpshort")


def run_command(
    main: Callable[..., None],
    define_flags: Callable[[], None],
    *,
    passes_on: bool = False,
    arguments: Sequence[str] = (),
    repeated: str = "",
) -> None:
    """Defines the flags, parses the command line, runs `main` and exits.

    Args:
        main: reads its flags from `absl.flags.FLAGS`. The docstring of its module is the text of `--help`.
        define_flags: defines the flags. They are not defined on import, so that one program can import several
            commands: absl refuses two flags with the same name.
        passes_on: whether `main` gets the list of arguments after `--`, which are meant for another system.
        arguments: the names of the arguments that must be on the command line beside the flags. `main` gets their
            values in this order.
        repeated: the name of an argument that may be given any number of times. `main` gets the list of values.

    Exit codes: 0 success, 1 unusable input (one line on standard error), 2 wrong flags, 130 stopped by Ctrl-C, 143
    training stopped by SIGTERM (see `training/checkpointing.py`).

    What the command prints passes `PrintableStream`. Tasks of other packages are there: see `import_extensions`.

    absl's own `app.run` shows no flags in `--help` when a console script starts it, prints a traceback for bad input,
    and exits with 1 for wrong flags.
    """
    with (
        contextlib.redirect_stdout(PrintableStream(sys.stdout)),
        contextlib.redirect_stderr(PrintableStream(sys.stderr, has_secrets=True)),
        _logging_to_standard_error(),
    ):
        _run(main, define_flags, passes_on, arguments, repeated)


def command_of(main: Callable[..., None], define_flags: Callable[[], None], **how: Any) -> Callable[[], None]:
    """Returns the function that starts a command: `run_command` with these arguments."""
    return functools.partial(run_command, main, define_flags, **how)


def running_command() -> str | None:
    """Returns the command line that `run_command` runs, without the folder of the program; None in other programs."""
    return _command


def _as_typed(arguments: Sequence[str]) -> str:
    """Returns a command line for people from that of a process.

    >>> _as_typed(["/bin/keras-bert-serve", "--page=a b"]), _as_typed(["/x/run_scripts/serve.py"])
    ("keras-bert-serve '--page=a b'", 'python -m run_scripts.serve')
    """
    folder, program = os.path.split(arguments[0])
    if program.endswith(".py"):
        program = f"python -m {os.path.basename(folder)}.{program.removesuffix('.py')}"
    return " ".join([program, *map(shlex.quote, arguments[1:])])


@contextlib.contextmanager
def _ended_by_closed_pipes() -> Iterator[None]:
    """Lets `--help | head`, which closes the pipe early, end the process without a word."""
    if not hasattr(signal, "SIGPIPE"):  # Windows
        yield
        return
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)


def _run(main: Callable, define_flags: Callable, passes_on: bool, arguments: Sequence[str], repeated: str) -> None:
    flags_of_others = set(flags.FLAGS)
    define_flags()
    if any(argument in _HELP for argument in sys.argv[1:]):
        # A command may define flags in several modules.
        own_flags = [name for name in flags.FLAGS if name not in flags_of_others]
        with _ended_by_closed_pipes():
            print(_help_text(sys.modules[main.__module__], own_flags), flush=True)
        sys.exit(0)
    own, others = sys.argv, []
    if passes_on and "--" in sys.argv:
        separator = sys.argv.index("--")
        own, others = sys.argv[:separator], sys.argv[separator + 1 :]
    try:
        values = flags.FLAGS(own)[1:]
        if repeated:
            values = [values]
        elif len(values) > len(arguments):
            raise flags.Error(f"Unexpected argument {values[len(arguments)]!r}. Flags are written --name=value.")
        elif len(values) < len(arguments):
            raise flags.Error(f"Expected: {' '.join(arguments)}. Missing: {' '.join(arguments[len(values) :])}.")
    except flags.UnrecognizedFlagError as error:
        instead = instead_of(pathlib.Path(inspect.getfile(main)).stem, error.flagname)
        _fail(instead or f"{str(error).strip()} See --help.", 2)
    except flags.Error as error:
        _fail(f"{str(error).strip()} See --help.", 2)
    quiet_tensorflow()
    global _command
    _command = _as_typed(sys.argv)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UntrainedWarning)
            import_extensions()
            main(*values, others) if passes_on else main(*values)
    except InputError as error:
        _fail(str(error), 1)
    except (ImportError, ValueError) as error:
        problem = _missing_backend() or _missing_tensorflow(error)
        if problem is None:
            raise
        _fail(problem, 1)
    except KeyboardInterrupt:
        _fail("stopped by Ctrl-C", 130)
    finally:
        _command = None


def _missing_backend() -> str | None:
    """Returns why Keras cannot run on the backend that the environment names, or None if that is not so."""
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if backend not in _BACKENDS:
        return f"Keras has no backend {backend!r:.50}. Set KERAS_BACKEND to tensorflow or jax."
    if importlib.util.find_spec(backend) is None:
        install = how_to_install("jax") if backend == "jax" else f"Install {backend}."
        return f"KERAS_BACKEND is {backend}, but the package {backend} is not installed. {install}"
    return None


def _missing_tensorflow(error: Exception) -> str | None:
    """Returns that TensorFlow is missing on another backend, or None if the error has another cause."""
    if not isinstance(error, ModuleNotFoundError) or error.name != "tensorflow":
        return None
    return (
        "This command reads its data with TensorFlow on every backend of Keras, but the package tensorflow is not "
        "installed. Install tensorflow."
    )


def refuse_flags_without_effect(has_effect: object, where: str, *names: str) -> None:
    """Raises `InputError` if some of these flags are on the command line, and have no effect.

    Args:
        has_effect: whether the flags have an effect; any value that can be tested for truth.
        where: the reason if they have none, such as "without --output_dir". It ends the message.
        names: names of the flags. Flags that are not on the command line are ignored.
    """
    present = [f"--{name}" for name in names if flags.FLAGS[name].present]
    if present and not has_effect:
        verb, them = ("has", "it") if len(present) == 1 else ("have", "them")
        raise InputError(f"{', '.join(present)} {verb} no effect {where}. Leave {them} out.")


@contextlib.contextmanager
def _logging_to_standard_error() -> Iterator[None]:
    """Prints the log messages of this project, but not those of other libraries, as plain lines in this block."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    loggers = [logging.getLogger(name) for name in ("__main__", "keras_bert", "data_prep", "run_scripts")]
    before = [(logger.level, logger.propagate, logger.handlers) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.handlers = [handler]
    try:
        yield
    finally:
        for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
            logger.setLevel(level)
            logger.propagate, logger.handlers = propagate, handlers


def _help_text(module, names: list[str]) -> str:
    lines = [(module.__doc__ or "").strip(), "", "Flags:"]
    for name in names:
        flag = flags.FLAGS[name]
        value = flag.default_as_str.strip("'") if flag.default is not None else ""
        default = f" (default: {value})" if value else ""
        lines.append(f"  --{flag.name}{default}\n      {' '.join(flag.help.split())}")
    return "\n".join(lines)


def _fail(message: str, exit_code: int) -> None:
    print(f"error: {InputError(message)}", file=sys.stderr)
    sys.exit(exit_code)


def import_extensions() -> None:
    """Imports the modules that installed packages name as entry points of the group `keras_bert`.

    Commands call it, since nobody imports those packages for them.

    Raises:
        InputError: a module cannot be imported.
    """
    for point in entry_points(group=_GROUP):
        try:
            point.load()
        except Exception as error:
            owner = f" of the package {point.dist.name}" if point.dist else ""
            raise InputError(
                f"The extension {point.value}{owner} cannot be imported: {type(error).__name__}: {error}. Mend it, or "
                "uninstall its package."
            ) from error
