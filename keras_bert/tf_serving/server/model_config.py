"""Which models and versions are served, and from where: from folders or from TensorFlow Serving's models.config."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.text_files import read_text_message

# The file that an exported folder of another format than SavedModel has.
EXPORT_FILE = "export.json"


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The configuration of one model.

    Attributes:
        name: the name in requests.
        base_path: the folder of its versions; or an exported folder, which is version 1.
        num_latest: the number of highest versions that are served.
        specific: if not empty, these versions are served instead.
        all_versions: whether every version is served.
        labels: label -> version.
    """

    name: str
    base_path: str
    num_latest: int = 1
    specific: tuple[int, ...] = ()
    all_versions: bool = False
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def versions_to_serve(self, versions: Sequence[int]) -> list[int]:
        """Returns the versions to serve: the highest one, or those that the policy selects."""
        if self.all_versions:
            return sorted(versions)
        if self.specific:
            return sorted(set(self.specific) & set(versions))
        return sorted(versions)[-self.num_latest :]


def model_config_of_argument(argument: str) -> ModelConfig:
    """Returns the model that an argument of the command line names: `folder`, or `NAME=folder`.

    Raises:
        InputError: the folder does not exist, or the name cannot be used in URLs.
    """
    name, equals, folder = argument.partition("=")
    if not equals or os.path.isdir(argument):
        name, folder = os.path.basename(os.path.abspath(argument)), argument
    if not os.path.isdir(folder):
        raise InputError(f"There is no folder {folder}. Give the folder that contains the versions 1, 2, ...")
    if os.path.isfile(os.path.join(folder, "saved_model.pb")):
        raise InputError(
            f"{folder} is one version of a SavedModel. Give the folder that contains it; later versions are then "
            "served too."
        )
    if not name or set(name) & set("/:"):
        raise InputError(f"A model cannot be named {name!r}, since its name is part of URLs. Use NAME=folder.")
    return ModelConfig(name, os.path.abspath(folder))


def read_model_configs(path: str) -> list[ModelConfig]:
    """Returns the models of a models.config file.

    Raises:
        InputError: the file does not exist, or is not a models.config that servers accept.
    """
    config = read_text_message(path, messages.ModelServerConfig)
    if config.WhichOneof("config") == "custom_model_config":
        raise InputError(f"{path}: Only model_config_list is supported. Received: custom_model_config")
    models = [_model_config(path, model) for model in config.model_config_list.config]
    names = [model.name for model in models]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{path}: The model {name} is listed twice. List it once.")
    return models


def _model_config(path: str, model) -> ModelConfig:
    if not model.name or set(model.name) & set("/:"):
        raise InputError(f"{path}: A model needs a name without / and :. Received: {model.name!r}")
    if not os.path.isabs(model.base_path):
        raise InputError(f"{path}: base_path of {model.name} must be an absolute path. Received: {model.base_path!r}")
    if model.model_platform != "tensorflow" and not model.model_type:
        raise InputError(
            f"{path}: model_platform of {model.name} must be 'tensorflow'. Received: {model.model_platform!r}"
        )
    policy = model.model_version_policy
    chosen = policy.WhichOneof("policy_choice")
    return ModelConfig(
        model.name,
        model.base_path,
        max(policy.latest.num_versions, 1) if chosen == "latest" else 1,
        tuple(policy.specific.versions) if chosen == "specific" else (),
        chosen == "all",
        dict(model.version_labels),
    )
