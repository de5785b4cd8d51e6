"""Finds the fastest runtime for a network by a short test, and keeps the result for this user and processor."""

import contextlib
import math
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.json_files import read_json_object, write_json
from keras_bert.program.user_cache import cache_folder, cache_key, remove_oldest
from keras_bert.records import features

# Rows and tokens: a short text, a text, a batch. Slow models are timed with the first only.
_SIZES = ((1, 16), (1, 64), (8, 64))
_SECONDS, _MOST_TURNS = 0.5, 20
_CALLS = 3  # of a turn; the first is not counted: threads of the other engine may still wait for work
_MOST_CALLERS = 8
_MOST_KEPT_BYTES = 1 << 20


def fastest(engines: Mapping[str, Any], longest: int, callers: int) -> tuple[str, str]:
    """Returns the name of the engine that takes the least time over all sizes, and a sentence with the times.

    Args:
        engines: name -> engine, which has `input_axes` and `run`.
        longest: the most tokens of a row.
        callers: how many threads call an engine at the same time.
    """
    times = _times(engines, longest, callers)
    first, *others = sorted(times, key=lambda name: math.prod(times[name].values()))
    sizes = [f"{batch} x {min(length, longest)}" for batch, length in times[first]]
    callers_text = "" if callers == 1 else f" for each of {min(callers, _MOST_CALLERS)} callers"
    precision = getattr(engines[first], "precision", "float32")
    reason = f"{first} in {precision}: {_shown(times[first])} ms for {', '.join(sizes)} tokens{callers_text}"
    return first, "; ".join([reason, *(f"{name} {_shown(times[name])}" for name in others)])


def _shown(times: Mapping[Any, float]) -> str:
    return ", ".join(f"{1000 * seconds:.3g}" for seconds in times.values())


def _times(engines: Mapping[str, Any], longest: int, callers: int) -> dict[str, dict[tuple[int, int], float]]:
    """Returns the shortest time in seconds of each engine for each size. Engines take turns."""
    callers = min(callers, _MOST_CALLERS)
    times: dict[str, dict] = {name: {} for name in engines}
    start = time.perf_counter()
    with ThreadPoolExecutor(callers) as pool:
        for number, size in enumerate(_SIZES):
            if time.perf_counter() - start > _SECONDS:
                break
            rows = {name: _rows(engine, size[0], min(size[1], longest)) for name, engine in engines.items()}
            for _ in range(_MOST_TURNS):
                for name, engine in engines.items():
                    found = [_seconds(pool, engine, rows[name], callers) for _ in range(_CALLS)][1:]
                    times[name][size] = min(found + [times[name].get(size, math.inf)])
                if time.perf_counter() - start > _SECONDS * (number + 1) / len(_SIZES):
                    break
    return times


def _seconds(pool: ThreadPoolExecutor, engine: Any, rows: Mapping[str, np.ndarray], callers: int) -> float:
    before = time.perf_counter()
    list(pool.map(engine.run, [rows] * callers))
    return time.perf_counter() - before


def _rows(engine: Any, batch: int, length: int) -> dict[str, np.ndarray]:
    sizes = {"batch": batch, "choices": 2, "length": length}
    ones = (features.INPUT_IDS, features.INPUT_MASK)
    return {
        name: np.full([axis if isinstance(axis, int) else sizes.get(axis, 1) for axis in axes], name in ones, np.int32)
        for name, axes in engine.input_axes.items()
    }


def choice_key(paths: Sequence[str], packages: Sequence[str], options: Sequence[Any]) -> str:
    """Returns the name under which a choice is kept. It depends on sizes and times of files that may be missing."""
    return cache_key(packages, *map(_state, paths), *options)


def kept_choice(key: str, names: Sequence[str]) -> tuple[str, str] | None:
    """Returns name and reason of an earlier choice, or None. A damaged file counts as none."""
    folder = cache_folder("runtimes")
    if folder is None:
        return None
    try:
        kept = read_json_object(os.path.join(folder, f"{key}.json"))
    except InputError:
        return None
    name, reason = kept.get("name"), kept.get("reason")
    return (name, reason) if name in names and isinstance(reason, str) else None


def keep_choice(key: str, name: str, reason: str) -> None:
    """Keeps a choice, if this user has a cache folder that can be written."""
    folder = cache_folder("runtimes")
    if folder is not None:
        with contextlib.suppress(InputError):
            write_json(os.path.join(folder, f"{key}.json"), {"name": name, "reason": reason})
        remove_oldest(folder, _MOST_KEPT_BYTES)


def _state(path: str) -> tuple[int, int] | None:
    if not os.path.exists(path):
        return None
    state = os.stat(path)
    return state.st_size, state.st_mtime_ns
