"""The flags that the suites of `benchmarks.speed` share, and descriptions of the machine and the versions."""

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Mapping

from absl import flags

from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
# The processor features that decide how fast it multiplies.
WIDE_UNITS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8", "asimd", "sve")


def define_suite_flags(turns: int) -> None:
    flags.DEFINE_string("environments", ".venv-benchmark", "The folder of the engines' environments.")
    flags.DEFINE_list("sides", None, "Only these sides.")
    flags.DEFINE_integer("turns", turns, "Turns of each side that are counted; one more goes before.", lower_bound=1)
    flags.DEFINE_boolean("quick", False, "A tiny model, one turn, and only sides that need no other environment.")


def sides_of_flag(sides: Mapping, quick: list[str]) -> list[str]:
    """Returns the chosen sides: those of --sides, else all, or `quick` for a smoke run. Raises if one is unknown."""
    chosen = FLAGS.sides or (quick if FLAGS.quick else list(sides))
    if unknown := [name for name in chosen if name not in sides]:
        raise InputError(f"--sides: there is no {'; '.join(unknown)}. There are: {'; '.join(sides)}")
    return chosen


def machine_lines() -> list[str]:
    """Describes the machine: processor, cores, memory, system, date."""
    about = {}
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                name, _, value = line.partition(":")
                about.setdefault(name.strip(), value.strip())
    processor = about.get("model name") or platform.processor() or platform.machine()
    abilities = (about.get("flags") or about.get("Features") or "").split()
    units = " ".join(unit for unit in WIDE_UNITS if unit in abilities)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = f", {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"
    return [
        f"{datetime.date.today()}, {processor}{f' ({units})' if units else ''}, {cores} cores{memory}, "
        f"{platform.system()}, Python {platform.python_version()}."
    ]


def version_lines(versions: Mapping[str, str], left_out: Mapping[str, str]) -> list[str]:
    """Describes each side with its version, and says why sides were left out."""
    own = f"keras_bert {importlib.metadata.version('keras-bert-pipeline')}" if _is_installed() else "keras_bert"
    names = {side: about.replace("keras_bert", own, 1) for side, about in versions.items()}
    lines = [f"{'; '.join(f'{side}: {about}' for side, about in names.items())}."]
    return lines + [f"Left out: {side}, because {reason}." for side, reason in left_out.items()]


def _is_installed() -> bool:
    try:
        importlib.metadata.version("keras-bert-pipeline")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def numbers_of_flag(name: str, smallest: int, largest: int) -> list[int]:
    """Returns the integers of a list flag. Raises `InputError` if an element is not an integer or is out of range."""
    numbers = []
    for text in FLAGS[name].value:
        if not text.isdecimal() or not smallest <= int(text) <= largest:
            raise InputError(f"--{name} takes whole numbers from {smallest} to {largest}. Received: {text!r}")
        numbers.append(int(text))
    return numbers
