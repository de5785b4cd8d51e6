"""Serves exported models with TensorFlow Serving's REST API, and a page to try them.

Arguments: exported folders of any format, each as FOLDER or NAME=FOLDER. The default name is that of the folder. Of a
folder of versions, the highest is served.

Examples:
  python -m run_scripts.serve saved_models/sentiment
  python -m run_scripts.serve sentiment=saved_models/sentiment bert=exports/bert --port=8080

Then http://127.0.0.1:8501/ is the page, and clients of TensorFlow Serving get answers:
  curl -d '{"instances": ["a wonderful film"]}' http://127.0.0.1:8501/v1/models/sentiment:predict

After SIGTERM or Ctrl-C, the server answers the requests in progress and ends. It is meant for development and tests;
docs/serving_run.md says what TensorFlow Serving does beyond it.
"""

import os

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError, how_to_install
from keras_bert.program.option_flags import define_flag, define_option_flags, options_of_flags
from keras_bert.tf_serving.server.request_limits import ServerOptions
from run_scripts.asked_models import define_runtime_flags


def define_flags() -> None:
    define_option_flags(ServerOptions)
    flags.FLAGS.set_default("num_threads", os.cpu_count() or 1)
    define_flag("rest_api_timeout_in_ms", 30_000, "The time limit of an answer.", at_least=1)
    define_runtime_flags()


def main(folders: list[str]) -> None:
    arguments = flags.FLAGS
    if not folders:
        raise InputError("Give the folders of exported models. See --help.")
    named = [_name_and_folder(folder) for folder in folders]
    if len(dict(named)) < len(named):
        raise InputError("Two models have the same name. Use NAME=FOLDER.")
    try:
        from keras_bert.tf_serving.server.run_server import run_server
    except ModuleNotFoundError as error:
        raise InputError(
            f"The server needs {error.name}, which is not installed. {how_to_install('serving')}"
        ) from None
    from keras_bert.serving import load

    how = {"runtime": arguments.runtime, "precision": arguments.precision, "callers": arguments.num_threads}
    models = {name: load(folder, **how) for name, folder in named}
    for name, model in models.items():
        if not model.signatures:
            raise InputError(
                f"{dict(named)[name]} is the export of a {model.kind}, which the server takes as a SavedModel only. "
                "Write one with export_model, without --format."
            )
    options = options_of_flags(ServerOptions, timeout_seconds=arguments.rest_api_timeout_in_ms / 1000)
    run_server(models, options, on_start=_announce)


def _name_and_folder(argument: str) -> tuple[str, str]:
    """Returns the name in requests and the folder of an argument, which is FOLDER or NAME=FOLDER.

    Raises `InputError` if the name cannot be used in URLs.
    """
    name, equals, folder = argument.partition("=")
    if not equals or os.path.isdir(argument):
        name, folder = os.path.basename(os.path.abspath(argument)), argument
    if not name or set(name) & set("/:"):
        raise InputError(f"A model cannot be named {name!r}, since its name is part of URLs. Use NAME=FOLDER.")
    return name, folder


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


command = command_of(main, define_flags, repeated="FOLDER")
if __name__ == "__main__":
    command()
