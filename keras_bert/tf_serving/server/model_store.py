"""Finds the versions of all models on disk, loads them, lends them to requests, and unloads them.

Everything except for loading and unloading runs in the event loop's thread, so no locks are needed.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence

from keras_bert.tf_serving.server.loaded_model import ServedModel
from keras_bert.tf_serving.server.model_config import EXPORT_FILE, ModelConfig
from keras_bert.tf_serving.server.status import Code, StatusError, invalid_argument

logger = logging.getLogger(__name__)

START, LOADING, AVAILABLE, UNLOADING, END = "START", "LOADING", "AVAILABLE", "UNLOADING", "END"
_MAX_VERSION = 2**63


class ServedVersion:
    """A version of a model.

    Attributes:
        state: START, LOADING, AVAILABLE, UNLOADING or END.
        error: the reason why it could not be loaded.
        model: the `ServedModel` while the version is available.
        joiners: signature -> what joins its requests; used by `Inference`.
    """

    def __init__(self, name: str, number: int, folder: str):
        self.name, self.number, self.folder = name, number, folder
        self.state = START
        self.error: StatusError | None = None
        self.model: ServedModel | None = None
        self.joiners = {}
        self._num_users = 0
        self._unused = asyncio.Event()
        self._unused.set()
        self._tried: tuple[object, float] | None = None

    def acquire(self) -> None:
        """Keeps the version in memory until `release` has been called as often as `acquire`."""
        self._num_users += 1
        self._unused.clear()

    def release(self) -> None:
        self._num_users -= 1
        if not self._num_users:
            self._unused.set()

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keeps the version in memory inside the block."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def should_be_tried(self, retry_seconds: float) -> bool:
        """Returns whether to load it: it is new, its files have changed, or a failure was `retry_seconds` ago."""
        if self.state in (LOADING, AVAILABLE, UNLOADING):
            return False
        if self._tried is None:
            return True
        files, moment = self._tried
        return time.monotonic() - moment >= retry_seconds or files != _files_of(self.folder)

    async def load(self, load: Callable[[str], ServedModel]) -> None:
        """Loads it in a thread. Errors are stored in `error`."""
        self.state = LOADING
        files = await asyncio.to_thread(_files_of, self.folder)
        try:
            self.model = await asyncio.to_thread(load, self.folder)
        except Exception as failure:
            error = failure
            if not isinstance(failure, StatusError):
                error = StatusError(Code.INTERNAL, f"{type(failure).__name__}: {failure}")
            if self.error is None or self.error.message != error.message:
                logger.warning("%s version %d cannot be loaded: %s", self.name, self.number, error)
            self.state, self.error = END, error
        else:
            self.state, self.error = AVAILABLE, None
            logger.info("%s version %d is served", self.name, self.number)
        self._tried = files, time.monotonic()

    async def unload(self) -> None:
        """Removes it from memory as soon as the requests in progress are answered."""
        self.state = UNLOADING
        await self._unused.wait()
        model, self.model, self.joiners = self.model, None, {}
        await asyncio.to_thread(model.close)
        self.state, self._tried = END, None
        logger.info("%s version %d is unloaded", self.name, self.number)


class ModelStore:
    """The served models, kept in line with the disk and the configuration.

    Args:
        configs: the models.
        retry_seconds: the time after which a version that failed to load is tried again even if its files are the same.
        load: function from folder to `ServedModel`; raises `StatusError`.
        allow_labels_for_unavailable: whether a label may name an unavailable version.
    """

    def __init__(
        self,
        configs: Sequence[ModelConfig],
        *,
        retry_seconds: float = 60,
        load: Callable[[str], ServedModel] = ServedModel,
        allow_labels_for_unavailable: bool = False,
    ):
        self.configs = {config.name: config for config in configs}
        self.allow_labels_for_unavailable = allow_labels_for_unavailable
        self._load, self._retry_seconds = load, retry_seconds
        self._versions: dict[str, dict[int, ServedVersion]] = {config.name: {} for config in configs}
        self._tasks: set[asyncio.Task] = set()
        self._complaints: dict[str, str] = {}

    @property
    def is_ready(self) -> bool:
        """Returns whether every model has an available version."""
        return all(any(v.state == AVAILABLE for v in self._versions.get(name, {}).values()) for name in self.configs)

    def listing(self) -> dict:
        """Returns the names of the models, and for each the numbers of its loaded versions, for the page."""
        names = sorted(self.configs)
        loaded = {name: [v.number for v in self.versions(name) if v.state == AVAILABLE] for name in names}
        return {"models": names, "versions": loaded}

    def versions(self, name: str) -> list[ServedVersion]:
        """Returns all current and former versions of a model, the highest first."""
        return [version for _, version in sorted(self._versions.get(name, {}).items(), reverse=True)]

    def find(self, name: str, number: int | None = None, label: str | None = None) -> ServedVersion:
        """Returns the version that a request names; without number and label, the highest available one.

        Raises:
            StatusError: NOT_FOUND, or INVALID_ARGUMENT for an unknown label.
        """
        if not name:
            raise invalid_argument("ModelSpec has no name specified.")
        if label is not None:
            number = self.labelled(name, label)
        available = {number: v for number, v in self._versions.get(name, {}).items() if v.state == AVAILABLE}
        if number is None and available:
            return available[max(available)]
        if number not in available:
            asked = f"Latest({name})" if number is None else f"Specific({name}, {number})"
            raise StatusError(Code.NOT_FOUND, f"Servable not found for request: {asked}")
        return available[number]

    def labelled(self, name: str, label: str) -> int:
        """Returns the version with a label. Raises INVALID_ARGUMENT if there is none."""
        labels = self.configs[name].labels if name in self.configs else {}
        if label not in labels:
            raise invalid_argument("Unrecognized servable version label: ", label)
        return labels[label]

    async def configure(self, configs: Sequence[ModelConfig]) -> None:
        """Replaces the served models. Returns when all versions are loaded or have failed.

        Raises:
            StatusError: FAILED_PRECONDITION: a label names an unavailable version. Then nothing has changed.
        """
        if not self.allow_labels_for_unavailable:
            for config in configs:
                self._check_labels(config)
        self.configs = {config.name: config for config in configs}
        for name in self.configs:
            self._versions.setdefault(name, {})
        await self.poll()
        await self.settle()

    def _check_labels(self, config: ModelConfig) -> None:
        known = self.configs.get(config.name)
        for label, number in config.labels.items():
            version = self._versions.get(config.name, {}).get(number)
            is_new = known is None or dict(known.labels).get(label) != number
            if is_new and known is not None and (version is None or version.state != AVAILABLE):
                raise StatusError(
                    Code.FAILED_PRECONDITION,
                    f"Request to assign label to version {number} of model {config.name}, which is not currently "
                    "available for inference",
                )

    async def poll(self) -> None:
        """Checks the disk once, and starts the necessary loading and unloading."""
        for name, config in list(self.configs.items()):
            found = await asyncio.to_thread(self._found, config)
            if found is not None:
                self._aspire(name, {number: found[number] for number in config.versions_to_serve(list(found))})
        for name in set(self._versions) - set(self.configs):
            self._aspire(name, {})

    async def settle(self) -> None:
        """Waits for all loading and unloading in progress."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def watch(self, poll_seconds: float) -> None:
        """Polls for ever."""
        while True:
            try:
                await self.poll()
            except Exception:
                logger.exception("Searching for versions failed. It will be repeated.")
            await asyncio.sleep(poll_seconds)

    async def unload_all(self) -> None:
        """Removes all models from memory."""
        await self.settle()
        for name in list(self._versions):
            for version in self.versions(name):
                if version.state == AVAILABLE:
                    await version.unload()

    def _found(self, config: ModelConfig) -> dict[int, str] | None:
        """Returns version -> folder, or None if the disk cannot be read now; then nothing is unloaded."""
        try:
            names = sorted(os.listdir(config.base_path))
        except OSError as error:
            self._complain(config.name, f"Could not find base path {config.base_path}: {error.strerror}")
            return None
        found = {1: config.base_path} if EXPORT_FILE in names else {}
        for name in names if not found else ():
            if name.isascii() and name.isdigit() and int(name) < _MAX_VERSION:
                found[int(name)] = os.path.join(config.base_path, name)
        if found:
            self._complaints.pop(config.name, None)
        else:
            self._complain(
                config.name, f"No versions of servable {config.name} found under base path {config.base_path}"
            )
        return found

    def _complain(self, name: str, complaint: str) -> None:
        if self._complaints.get(name) != complaint:
            logger.warning("%s", complaint)
            self._complaints[name] = complaint

    def _aspire(self, name: str, aspired: dict[int, str]) -> None:
        versions = self._versions[name]
        for number, folder in aspired.items():
            version = versions.setdefault(number, ServedVersion(name, number, folder))
            version.folder = folder
            if version.should_be_tried(self._retry_seconds):
                version.state = LOADING
                self._begin(self._load_and_drop_others(version))
        self._drop(name, aspired)

    async def _load_and_drop_others(self, version: ServedVersion) -> None:
        await version.load(self._load)
        if version.state == AVAILABLE and version.name in self.configs:
            found = await asyncio.to_thread(self._found, self.configs[version.name])
            if found is not None and version.name in self.configs:
                self._drop(version.name, self.configs[version.name].versions_to_serve(list(found)))

    def _drop(self, name: str, aspired) -> None:
        """Unloads versions that are no longer needed. The old version stays until the new one is loaded."""
        versions = self._versions[name]
        has_new = any(versions[number].state == AVAILABLE for number in aspired if number in versions)
        for number, version in list(versions.items()):
            if number in aspired:
                continue
            if version.state == AVAILABLE and (has_new or not aspired):
                version.state = UNLOADING
                self._begin(version.unload())
            elif version.state == END and version.error is not None:
                del versions[number]  # a version that could not be loaded and no longer exists
        if name not in self.configs and not any(v.state in (LOADING, AVAILABLE, UNLOADING) for v in versions.values()):
            del self._versions[name]

    def _begin(self, work) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _files_of(folder: str) -> object:
    """Returns a value that changes if a file of the folder changes."""
    files = []
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.stat(os.path.join(path, name))
                files.append((path, name, status.st_size, status.st_mtime_ns))
    return sorted(files)
