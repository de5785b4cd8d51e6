"""Measures a server under load, and proposes batching parameters.

Every batch size is measured with one client, then one row and the best batch size with several clients. The server's
own batching must be off. Client and server should be on different machines if the numbers are to apply elsewhere.

Examples:
  python -m run_scripts.load_test_server --url=http://127.0.0.1:8501 --model=sentiment
  python -m run_scripts.load_test_server --url=127.0.0.1:8500 --grpc --model=sentiment --examples=requests.jsonl \\
      --latency_ms=50 --output_file=load.json --batching_file=batching.config
"""

import dataclasses
import json
import os

from absl import flags

from keras_bert.program.command_line import refuse_flags_without_effect, run_command
from keras_bert.program.errors import InputError


def define_flags() -> None:
    flags.DEFINE_string("url", "http://127.0.0.1:8501", "The server: http://host:port; with --grpc host:port.")
    flags.DEFINE_bool("grpc", False, "Use gRPC.")
    flags.DEFINE_string("model", None, "The name of the model on the server.", required=True)
    flags.DEFINE_string("signature", "serving_default", "The signature, which must take texts.")
    flags.DEFINE_string("examples", None, 'Real requests, one row per line: {"text": "a wonderful film"}.')
    flags.DEFINE_list(
        "lengths", ["4", "24", "96"], "Numbers of words in the texts that are made up without --examples."
    )
    flags.DEFINE_list("batch_sizes", ["1", "2", "4", "8", "16", "32", "64"], "Numbers of rows per request.")
    flags.DEFINE_list("concurrency", ["1", "2", "4", "8"], "Numbers of simultaneous clients.")
    flags.DEFINE_float("seconds", 3.0, "The duration of each measurement.", lower_bound=0.01)
    flags.DEFINE_float("timeout", 30.0, "Seconds after which a request counts as failed.", lower_bound=0.001)
    flags.DEFINE_float("wait", 0.0, "The longest time in seconds to wait for the model.", lower_bound=0.0)
    flags.DEFINE_float("latency_ms", None, "The time limit for 99 of 100 batches.", lower_bound=0.001)
    flags.DEFINE_string("output_file", None, "The JSON file for the measurements and the proposal.")
    flags.DEFINE_string("batching_file", None, "The batching file to write, with the proposal.")


def main():
    from keras_bert.program.atomic_output import atomic_file, check_output_file
    from keras_bert.tf_serving.batching_proposal import propose_batching
    from keras_bert.tf_serving.client import GrpcClient, RestClient, ServingError
    from keras_bert.tf_serving.load_measurement import made_up_rows, measure_all
    from keras_bert.tf_serving.saved_model_check.batching import has_one_width
    from run_scripts.make_serving_kit import read_examples

    arguments = flags.FLAGS
    refuse_flags_without_effect(not arguments.examples, "with --examples", "lengths")
    for path in filter(None, [arguments.output_file, arguments.batching_file]):
        check_output_file(path, filter(None, [arguments.examples]))
    outputs = [os.path.realpath(path) for path in (arguments.output_file, arguments.batching_file) if path]
    if len(set(outputs)) < len(outputs):
        raise InputError("output_file and batching_file name the same file. Give two names.")
    sizes, clients = _numbers("batch_sizes"), _numbers("concurrency")
    kind = GrpcClient if arguments.grpc else RestClient
    most = max(clients)
    options = {"timeout": arguments.timeout, "retries": 0, "batch_size": None, "max_in_flight": most}
    try:
        with kind(arguments.url, arguments.model, **options) as client:
            if arguments.wait:
                client.wait_until_available(arguments.wait)
            signatures = client.metadata().signatures
            if arguments.examples:
                rows = read_examples(arguments.examples)
            else:
                if arguments.signature not in signatures:
                    raise InputError(
                        f"{arguments.model} has no signature {arguments.signature}. It has: {', '.join(signatures)}."
                    )
                rows = made_up_rows(signatures[arguments.signature], _numbers("lengths"))
            print(_HEADER, flush=True)
            measurements = measure_all(
                lambda inputs: client.predict(arguments.signature, **inputs),
                rows,
                sizes,
                clients,
                arguments.seconds,
                lambda measurement: print(_line(measurement), flush=True),
                arguments.latency_ms,
            )
    except ServingError as error:
        raise InputError(str(error)) from error
    outputs = [output for signature in signatures.values() for output in signature.outputs.values()]
    can_split = all(has_one_width(output.shape) for output in outputs)
    proposal = propose_batching(measurements, arguments.latency_ms, can_split=can_split)
    print("\nProposed for --batching_parameters_file:\n\n" + proposal.batching.text())
    print("\n".join(f"* {reason}" for reason in proposal.reasons))
    if arguments.output_file:
        with atomic_file(arguments.output_file) as file:
            file.write((_as_json(measurements, proposal) + "\n").encode())
    if arguments.batching_file:
        with atomic_file(arguments.batching_file) as file:
            file.write(proposal.batching.text().encode())


_HEADER = "  rows  clients  requests  failed    p50 ms    p90 ms    p99 ms    rows/s"


def _line(one) -> str:
    return (
        f"{one.batch_size:6} {one.concurrency:8} {one.requests:9} {one.failed:7} {one.p50_ms:9.2f} {one.p90_ms:9.2f} "
        f"{one.p99_ms:9.2f} {one.rows_per_second:9.1f}"
    )


def _as_json(measurements, proposal) -> str:
    rows = [dataclasses.asdict(one) | {"rows_per_second": one.rows_per_second} for one in measurements]
    batching = dataclasses.asdict(proposal.batching)
    return json.dumps({"measurements": rows, "proposal": batching, "reasons": proposal.reasons}, indent=2)


def _numbers(name: str) -> list[int]:
    values = getattr(flags.FLAGS, name)
    if not values or not all(value.isascii() and value.isdigit() and int(value) for value in values):
        raise InputError(
            f"--{name} must be whole numbers from 1, such as 1,8. Received: {','.join(values) or 'nothing'}"
        )
    return [int(value) for value in values]


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
