"""Serves SavedModels like TensorFlow Serving: with its REST API, and a page to try them.

Arguments: folders of versions, each as FOLDER or NAME=FOLDER. The default name is that of the folder. A folder of
export_model --format=onnx or litert is served too, as version 1 and without TensorFlow.

Examples:
  python -m run_scripts.serve saved_models/sentiment
  python -m run_scripts.serve sentiment=saved_models/sentiment bert=runs/bert --port=8080
  python -m run_scripts.serve --model_config_file=models.config --enable_batching

Then http://127.0.0.1:8501/ is the page, and clients of TensorFlow Serving get answers:
  curl -d '{"instances": ["a wonderful film"]}' http://127.0.0.1:8501/v1/models/sentiment:predict

A new version in a folder is loaded when it appears, and then the old one is unloaded. After SIGTERM or Ctrl-C, the
server answers the requests in progress and ends. It is meant for development and tests; docs/serving_run.md lists the
differences from TensorFlow Serving.
"""

import functools
import glob
import os

from absl import flags

from keras_bert.program.command_line import refuse_flags_without_effect, run_command
from keras_bert.program.errors import InputError, how_to_install
from keras_bert.program.option_flags import define_option_flags, options_of_flags
from keras_bert.tf_serving.server.server_options import ServerOptions
from run_scripts.asked_models import define_runtime_flags, refuse_runtime_flags


def define_flags() -> None:
    define_option_flags(ServerOptions)
    flags.FLAGS.set_default("num_threads", os.cpu_count() or 1)
    flags.DEFINE_bool("enable_batching", False, "Whether requests of several clients are computed together.")
    flags.DEFINE_integer("rest_api_timeout_in_ms", 30_000, "The time limit of a request.", lower_bound=1)
    define_runtime_flags()


def main(folders: list[str]) -> None:
    arguments = flags.FLAGS
    if bool(folders) == bool(arguments.model_config_file):
        raise InputError("Give either folders of SavedModels or --model_config_file. See --help.")
    try:
        from keras_bert.serving.portable.served_export import ServedExport
        from keras_bert.serving.request_joining import RequestJoiner
        from keras_bert.tf_serving.server.model_config import model_config_of_argument, read_model_configs
        from keras_bert.tf_serving.server.run_server import run_server
    except ModuleNotFoundError as error:
        raise InputError(
            f"The server needs {error.name}, which is not installed. {how_to_install('serving')}"
        ) from None
    refuse_flags_without_effect(
        arguments.model_config_file,
        "without --model_config_file",
        *("model_config_file_poll_wait_seconds", "allow_version_labels_for_unavailable_models"),
    )
    if folders:
        configs = [model_config_of_argument(folder) for folder in folders]
        if len({config.name for config in configs}) < len(configs):
            raise InputError("Two models have the same name. Use NAME=folder.")
    else:
        configs = read_model_configs(arguments.model_config_file)
    join = functools.partial(RequestJoiner, num_at_once=arguments.num_threads) if arguments.enable_batching else None
    timeout_seconds = arguments.rest_api_timeout_in_ms / 1000
    if not any(map(_has_export, configs)):
        refuse_runtime_flags(", ".join(config.base_path for config in configs), "runtime", "precision")
    of_exports = {name: flags.FLAGS[name].value for name in ("runtime", "precision")}
    load_export = functools.partial(ServedExport, callers=arguments.num_threads, **of_exports)
    options = options_of_flags(ServerOptions, join=join, timeout_seconds=timeout_seconds, load_export=load_export)
    run_server(configs, options, on_start=_announce)


def _has_export(config) -> bool:
    return any(
        glob.glob(os.path.join(glob.escape(config.base_path), *name))
        for name in (["export.json"], ["*", "export.json"])
    )


def _announce(address) -> None:
    from keras_bert.tf_serving.server.http_protocol import is_loopback

    host = f"[{address.host}]" if ":" in address.host else address.host
    print(f"REST and page: http://{host}:{address.port}/", flush=True)
    if not is_loopback(address.host):
        print(
            "Warning: other machines can reach this server, which has neither passwords nor encryption. It answers to "
            "any name (Host header).",
            flush=True,
        )


def command() -> None:
    run_command(main, define_flags, repeated="FOLDER")


if __name__ == "__main__":
    command()
