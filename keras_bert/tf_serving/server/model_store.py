"""The versions of all models: found on disk, loaded, handed out to requests, unloaded.

Everything but loading and unloading happens in the event loop's thread, so nothing here needs a lock.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence

from keras_bert.tf_serving.server.loaded_model import LoadedModel
from keras_bert.tf_serving.server.model_config import ModelConfig
from keras_bert.tf_serving.server.status import Code, StatusError, invalid_argument

logger = logging.getLogger(__name__)

START, LOADING, AVAILABLE, UNLOADING, END = "START", "LOADING", "AVAILABLE", "UNLOADING", "END"
_MAX_VERSION = 2**63


class ModelVersion:
    """A version of a model.

    Attributes:
        state: START, LOADING, AVAILABLE, UNLOADING or END.
        error: why it could not be loaded.
        model: the `LoadedModel`, while it is available.
        batchers: signature -> `Batcher`, for the one who runs it.
    """

    def __init__(self, name: str, number: int, folder: str):
        self.name, self.number, self.folder = name, number, folder
        self.state = START
        self.error: StatusError | None = None
        self.model: LoadedModel | None = None
        self.batchers = {}
        self._num_users = 0
        self._unused = asyncio.Event()
        self._unused.set()
        self._tried: tuple[object, float] | None = None

    def acquire(self) -> None:
        """Keeps the version in memory until `release` is called as often."""
        self._num_users += 1
        self._unused.clear()

    def release(self) -> None:
        self._num_users -= 1
        if not self._num_users:
            self._unused.set()

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """While this is entered the version stays in memory."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def should_be_tried(self, retry_seconds: float) -> bool:
        """Whether it has not been loaded yet, or loading it again may go better: its files changed, or time went by."""
        if self.state in (LOADING, AVAILABLE, UNLOADING):
            return False
        if self._tried is None:
            return True
        files, moment = self._tried
        return time.monotonic() - moment >= retry_seconds or files != _files_of(self.folder)

    async def load(self, load: Callable[[str], LoadedModel]) -> None:
        """Loads it in a thread. What goes wrong is kept in `error`."""
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
        """Takes it out of memory as soon as the requests under way are answered."""
        self.state = UNLOADING
        await self._unused.wait()
        model, self.model, self.batchers = self.model, None, {}
        await asyncio.to_thread(model.close)
        self.state, self._tried = END, None
        logger.info("%s version %d is unloaded", self.name, self.number)


class ModelStore:
    """The models that are served, kept as the disk and the configuration have them.

    Args:
        configs: the models.
        retry_seconds: when a version that could not be loaded is tried again although no file of it has changed.
        load: folder -> `LoadedModel`; raises `StatusError`.
        allow_labels_for_unavailable: whether a label may name a version that is not available.
    """

    def __init__(
        self,
        configs: Sequence[ModelConfig],
        *,
        retry_seconds: float = 60,
        load: Callable[[str], LoadedModel] = LoadedModel,
        allow_labels_for_unavailable: bool = False,
    ):
        self.configs = {config.name: config for config in configs}
        self.allow_labels_for_unavailable = allow_labels_for_unavailable
        self._load, self._retry_seconds = load, retry_seconds
        self._versions: dict[str, dict[int, ModelVersion]] = {config.name: {} for config in configs}
        self._tasks: set[asyncio.Task] = set()
        self._complaints: dict[str, str] = {}

    @property
    def is_ready(self) -> bool:
        """Whether every model has a version that answers."""
        return all(any(v.state == AVAILABLE for v in self._versions.get(name, {}).values()) for name in self.configs)

    def versions(self, name: str) -> list[ModelVersion]:
        """Returns all versions of a model that there are or were, the highest first."""
        return [version for _, version in sorted(self._versions.get(name, {}).items(), reverse=True)]

    def find(self, name: str, number: int | None = None, label: str | None = None) -> ModelVersion:
        """Returns the version that a request asks for: the highest available one unless it says more.

        Raises:
            StatusError: NOT_FOUND, or INVALID_ARGUMENT for a label that there is not.
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
        """Returns the version that has a label. Raises INVALID_ARGUMENT if there is none."""
        labels = self.configs[name].labels if name in self.configs else {}
        if label not in labels:
            raise invalid_argument("Unrecognized servable version label: ", label)
        return labels[label]

    async def configure(self, configs: Sequence[ModelConfig]) -> None:
        """Serves these models from now on, and no others; returns when what could be loaded is.

        Raises:
            StatusError: FAILED_PRECONDITION: a label names a version that is not available; nothing has changed then.
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
        """Looks at the disk once, and begins to load and to unload what follows from it."""
        for name, config in list(self.configs.items()):
            found = await asyncio.to_thread(self._found, config)
            if found is not None:
                self._aspire(name, {number: found[number] for number in config.versions_to_serve(list(found))})
        for name in set(self._versions) - set(self.configs):
            self._aspire(name, {})

    async def settle(self) -> None:
        """Waits for all loading and unloading that is under way."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def watch(self, poll_seconds: float) -> None:
        """Polls for ever."""
        while True:
            try:
                await self.poll()
            except Exception:
                logger.exception("Looking for versions failed; it is tried again.")
            await asyncio.sleep(poll_seconds)

    async def unload_all(self) -> None:
        """Takes all models out of memory."""
        await self.settle()
        for name in list(self._versions):
            for version in self.versions(name):
                if version.state == AVAILABLE:
                    await version.unload()

    def _found(self, config: ModelConfig) -> dict[int, str] | None:
        """Returns version -> folder, or None if the disk cannot be read now, which is no reason to unload anything."""
        try:
            names = sorted(os.listdir(config.base_path))
        except OSError as error:
            self._complain(config.name, f"Could not find base path {config.base_path}: {error.strerror}")
            return None
        found = {}
        for name in names:
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
            version = versions.setdefault(number, ModelVersion(name, number, folder))
            version.folder = folder
            if version.should_be_tried(self._retry_seconds):
                version.state = LOADING
                self._begin(self._load_and_drop_others(version))
        self._drop(name, aspired)

    async def _load_and_drop_others(self, version: ModelVersion) -> None:
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
                del versions[number]  # a version that could not be loaded, and is gone
        if name not in self.configs and not any(v.state in (LOADING, AVAILABLE, UNLOADING) for v in versions.values()):
            del self._versions[name]

    def _begin(self, work) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _files_of(folder: str) -> object:
    """Returns what changes when a file of the folder does."""
    files = []
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.stat(os.path.join(path, name))
                files.append((path, name, status.st_size, status.st_mtime_ns))
    return sorted(files)
