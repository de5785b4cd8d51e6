"""The command starts, prints its address, stops on a signal, and reports invalid requests in one line."""

import json
import signal
import subprocess
import sys

import pytest
from small_saved_models import MODEL, HttpClient, save_model, wait_until_ready


def start(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "run_scripts.serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_sigterm_answers_what_is_under_way_and_exits_with_0(tmp_path):
    save_model(tmp_path / MODEL / "1")
    with start(str(tmp_path / MODEL), "--port=0") as process:
        try:
            port = int(process.stdout.readline().rstrip("/\n").rpartition(":")[2])
            wait_until_ready(port)
            with HttpClient(port, timeout=120) as client, HttpClient(port) as other:
                body = json.dumps({"signature_name": "slow", "instances": [400_000]})
                client._connection.request("POST", f"{client.path}:predict", body)
                assert other.look()[0] == 200  # the server has read the request before this one
                process.send_signal(signal.SIGTERM)
                response = client._connection.getresponse()
                assert response.status == 200
                assert 400_000 <= json.load(response)["predictions"][0] <= 400_001
            assert process.wait(120) == 0
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "error: Give either folders of SavedModels or --model_config_file"),
        (["{}/none"], "error: There is no folder"),
        (["{}", "{}"], "error: Two models have the same name."),
        (["--model_config_file={}/x"], "error: Cannot read"),
    ],
)
def test_what_cannot_be_served_is_one_line(tmp_path, run_here, arguments, error):
    from run_scripts import serve

    code, printed = run_here(serve, *(argument.format(tmp_path) for argument in arguments))
    assert code == 1
    assert printed.err.startswith(error)
