"""Asks a model on a server with TF Serving's API, and prints its answers.

The inputs of the model are given by flags with their names, or on standard input, one question per line, with tabs
between columns: a text; a text and optionally a second one; a question and its context; a prompt and its choices. Every
line gets an answer: a blank line is an empty text.

Examples:
  python -m run_scripts.query_server --url=http://127.0.0.1:8501 --model=sentiment --text="a wonderful film"
  python -m run_scripts.query_server --url=127.0.0.1:8500 --grpc --model=squad --question="Who?" \\
      --context="Ada wrote it."
  python -m run_scripts.query_server --url=http://127.0.0.1:8501 --model=sentiment --status
"""

import functools

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_flag
from run_scripts.questions import AskedModel, answer_questions, define_question_flags, given_questions


def define_flags() -> None:
    flags.DEFINE_string("url", "http://127.0.0.1:8501", "The server: http://host:port or https://host:port")
    help = "Use gRPC, which needs tensorflow-serving-api; --url is then host:port, or https://host:port for TLS"
    flags.DEFINE_bool("grpc", False, help)
    flags.DEFINE_string("ca_file", None, "For TLS: a PEM file of certificates (default: those of the system)")
    flags.DEFINE_string("model", None, "The name of the model on the server", required=True)
    define_flag("version", None, "The version of the model (default: the newest)", at_least=0)
    flags.DEFINE_string("label", None, "The label of a version, instead of --version")
    flags.DEFINE_string("signature", "serving_default", "The signature, which must take texts")
    define_flag("timeout", 30.0, "The time limit of a request in seconds", kind=float, at_least=0.001)
    define_flag("wait", 0.0, "The longest time in seconds to wait for the model", kind=float, at_least=0.0)
    flags.DEFINE_bool("json", False, "Print the outputs of each question as one line of JSON")
    flags.DEFINE_bool("status", False, "Print the versions of the model and their states only")
    flags.DEFINE_bool("metadata", False, "Print the inputs and outputs of the model only")
    define_question_flags()


def main():
    arguments = flags.FLAGS
    given = given_questions()
    from keras_bert.tf_serving.client import ServingError

    try:
        with _client(arguments) as client:
            if arguments.wait:
                client.wait_until_available(arguments.wait)
            if arguments.status:
                for one in sorted(client.status(), key=lambda version: version.version):
                    error = "" if one.error_code == "OK" else f"  {one.error_code}: {one.error_message}"
                    print(f"version {one.version}  {one.state}{error}")
            elif arguments.metadata:
                _print_metadata(client.metadata())
            else:
                model = _served_model(client, arguments.model, arguments.signature, arguments.json)
                answer_questions(given, model, with_questions=not arguments.json)
    except ServingError as error:
        raise InputError(str(error)) from error


def _client(arguments):
    from keras_bert.tf_serving.client import GrpcClient, RestClient

    choice = {"version": arguments.version, "label": arguments.label, "timeout": arguments.timeout}
    if not arguments.grpc:
        return RestClient(arguments.url, arguments.model, tls=_tls(arguments.ca_file), **choice)
    scheme, _, address = arguments.url.rpartition("://")
    credentials = None
    if scheme == "https":
        from keras_bert.tf_serving.client.grpc_api import tls_credentials

        credentials = tls_credentials(_read(arguments.ca_file) if arguments.ca_file else None)
    elif scheme not in ("", "http"):
        raise InputError(
            f"With --grpc, --url must be host:port, or https://host:port for TLS. Received: {arguments.url}"
        )
    return GrpcClient(address.rstrip("/"), arguments.model, credentials=credentials, **choice)


def _tls(ca_file: str | None):
    import ssl

    if ca_file is None:
        return None
    try:
        return ssl.create_default_context(cadata=_read(ca_file).decode("ascii", "replace"))
    except ssl.SSLError as error:
        raise InputError(f"--ca_file={ca_file} has no certificates in PEM form.") from error


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InputError(f"Cannot read --ca_file={path}: {error.strerror}") from error


def _served_model(client, name: str, signature: str, as_json: bool) -> AskedModel:
    metadata = client.metadata()
    if signature not in metadata.signatures:
        raise InputError(
            f"The model {name} has no signature {signature!r}. It has: {', '.join(sorted(metadata.signatures))}."
        )
    ask = functools.partial(client.predict, signature)
    return AskedModel(f"The model {name}", signature, metadata.signatures[signature].inputs, ask, as_json)


def _print_metadata(metadata) -> None:
    print(f"{metadata.name}, version {metadata.version}")
    for name, signature in sorted(metadata.signatures.items()):
        print(f"\n{name}")
        for direction, tensors in (("takes", signature.inputs), ("gives", signature.outputs)):
            for key, tensor in sorted(tensors.items()):
                sizes = ["?" if size is None else str(size) for size in tensor.shape or ()]
                shape = "of any shape" if tensor.shape is None else f"[{', '.join(sizes)}]"
                print(f"  {direction} {key}  {tensor.dtype} {shape}")


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
