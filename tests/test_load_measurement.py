"""The load test: its measurements of a server with known speed, and its proposals."""

import contextlib
import json
import subprocess
import sys
import threading
import time

import pytest
from fake_tf_serving import SIGNATURES, FakeTfServing, Refused, toy_model

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.batching_parameters import read_batching_file
from keras_bert.tf_serving.batching_proposal import Measurement, best_batch_size, propose_batching
from keras_bert.tf_serving.load_measurement import measure
from run_scripts import load_test_server


def measured(batch_size, p50_ms, concurrency=1, rows_per_second=None, p99_ms=None):
    """The measurement of a server that takes `p50_ms` for each of 100 requests."""
    rows_per_second = rows_per_second or batch_size * concurrency * 1000 / p50_ms
    return Measurement(
        batch_size, concurrency, 100, 0, 100 * batch_size / rows_per_second, p50_ms, p50_ms, p99_ms or p50_ms
    )


# 100, 200, 400, 400 rows a second: eight rows in 20 ms are enough.
BY_SIZE = [measured(1, 10), measured(4, 20), measured(8, 20), measured(16, 40)]
BY_CLIENTS = [measured(8, 20, 2), measured(8, 40, 4), measured(8, 80, 8)]


def test_the_example_of_the_docstring_holds():
    by_size = [measured(1, 10), measured(8, 20), measured(16, 40)]
    batching = propose_batching([*by_size, measured(8, 20, 2), measured(8, 40, 4)], can_split=True).batching
    assert (batching.max_batch_size, batching.max_execution_batch_size) == (64, 8)
    assert (batching.batch_timeout_micros, batching.num_batch_threads) == (1000, 2)


def test_the_smallest_batch_that_is_nearly_the_best_is_proposed_with_its_threads_and_queue():
    proposal = propose_batching(BY_SIZE + BY_CLIENTS, can_split=True)
    assert best_batch_size(BY_SIZE) == 8
    assert proposal.batching.max_execution_batch_size == 8
    # 8 rows in 20 ms: 2 clients have twice the rows of one; 4 and 8 wait for each other.
    assert proposal.batching.num_batch_threads == 2
    assert proposal.batching.max_enqueued_batches == 100  # 2 at a time, 20 ms each, in a second
    assert len(proposal.reasons) == 6
    assert "Larger ones" not in proposal.reasons[1]
    assert "Larger ones were not tried" in propose_batching(BY_SIZE[:3]).reasons[1]


@pytest.mark.parametrize("can_split", [True, False])
@pytest.mark.parametrize("largest", [16, 200])
def test_requests_that_were_measured_or_that_clients_send_are_never_refused(can_split, largest):
    # Batches of 8 are best. Requests this slow leave room for few batches in the queue.
    sizes = [measured(1, 1000), measured(8, 2000), measured(largest, 250 * largest)]
    batching = propose_batching(sizes, can_split=can_split).batching
    assert batching.largest_request == max(64, largest)
    assert batching.enable_large_batch_splitting == can_split
    assert batching.max_execution_batch_size == (8 if can_split else None)
    assert "batch_size=8" in propose_batching(sizes).reasons[1]


def test_joining_that_gains_nothing_is_not_proposed():
    linear = [measured(size, 10 * size) for size in (1, 2, 4)]
    proposal = propose_batching([*linear, measured(1, 10, 2)])
    assert (proposal.batching.max_batch_size, proposal.batching.batch_timeout_micros) == (64, 0)
    assert "switch batching off" in proposal.reasons[0]


def test_a_limit_of_latency_keeps_batches_small():
    sizes = [measured(1, 10), measured(8, 20, p99_ms=25), measured(16, 24, p99_ms=60)]
    assert propose_batching(sizes, can_split=True).batching.max_execution_batch_size == 16
    assert propose_batching(sizes, latency_ms=30, can_split=True).batching.max_execution_batch_size == 8
    with pytest.raises(InputError, match="Not even requests of 1 row"):
        propose_batching(sizes, latency_ms=5)
    with pytest.raises(InputError, match="there are none"):
        propose_batching(BY_CLIENTS)


def test_batches_are_filled_up_only_where_that_costs_nothing():
    flat = [measured(1, 10), measured(32, 10.5), measured(64, 11)]
    proposal = propose_batching(flat)
    assert proposal.batching.allowed_batch_sizes == (1, 32, 64)
    steep = [measured(1, 10), measured(32, 10.5), measured(64, 14)]
    proposal = propose_batching(steep)
    assert proposal.batching.allowed_batch_sizes == ()
    assert "64 rows take 1.3 times as long as 32" in proposal.reasons[-1]
    assert "64 rows, which would be the last of them, were not measured" in propose_batching(flat[:2]).reasons[-1]


@contextlib.contextmanager
def fake_server(seconds_per_request, seconds_per_row, at_once, signatures=SIGNATURES):
    """A server that runs `at_once` requests at a time, each for a known time; yields its address and requests."""
    slots, requests = threading.Semaphore(at_once), []

    def model(signature, inputs):
        texts = [text.decode() for text in inputs["text"]]
        requests.append(texts)
        if "fail" in texts:
            raise Refused("UNAVAILABLE", "busy")
        with slots:
            time.sleep(seconds_per_request + seconds_per_row * len(texts))
        return toy_model(signature, inputs)

    with contextlib.closing(FakeTfServing(model=model, signatures=signatures)) as server:
        yield server.url, requests


@pytest.mark.slow
def test_the_command_measures_a_server_and_proposes_what_follows_from_its_speed(tmp_path, run_here):
    # One row takes 101 ms, eight take 108 ms, and two requests run at once: joining helps, two threads are enough.
    with fake_server(0.1, 0.001, at_once=2, signatures=["length"]) as (url, requests):
        code, shown = run_here(
            load_test_server,
            "--model=toy",
            "--signature=length",
            f"--url={url}",
            "--batch_sizes=1,8",
            "--concurrency=1,2,4",
            "--seconds=1",
            "--lengths=3,5",
            f"--output_file={tmp_path}/load.json",
            f"--batching_file={tmp_path}/batching.config",
        )
    assert (code, shown.err) == (0, "")
    assert {len(texts) for texts in requests} == {1, 8}
    assert {len(text.split()) for texts in requests for text in texts} == {3, 5}
    result = json.loads((tmp_path / "load.json").read_text())
    assert [(one["batch_size"], one["concurrency"]) for one in result["measurements"]] == [
        *[(1, 1), (8, 1)],
        *[(1, 2), (1, 4)],
        *[(8, 2), (8, 4)],
    ]
    for one in result["measurements"]:
        # Four clients at two slots wait twice as long.
        waiting = max(one["concurrency"], 2) / 2
        expected = waiting * (100 + one["batch_size"])
        assert expected * 0.95 < one["p50_ms"] < expected * 1.5, one
        assert one["p50_ms"] <= one["p90_ms"] <= one["p99_ms"]
        rate = one["batch_size"] * one["concurrency"] * 1000 / one["p50_ms"]
        assert rate * 0.7 < one["rows_per_second"] < rate * 1.3, one
        assert one["failed"] == 0
    batching = read_batching_file(tmp_path / "batching.config")
    assert (batching.max_batch_size, batching.max_execution_batch_size) == (64, 8)
    # On a busy machine two clients may not fill the two slots, but four do.
    assert batching.num_batch_threads in (2, 4)
    rows = [{key: value for key, value in one.items() if key != "rows_per_second"} for one in result["measurements"]]
    assert batching == propose_batching([Measurement(**one) for one in rows], can_split=True).batching
    assert f"num_batch_threads {batching.num_batch_threads}: " in shown.out


def test_real_requests_are_asked_and_failures_are_counted(tmp_path, run_here):
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in ["one", "two", "three", "four"]))
    with fake_server(0.001, 0, at_once=2) as (url, requests):
        arguments = [f"--url={url}", "--batch_sizes=1", "--concurrency=1", "--seconds=0.2"]
        code, _ = run_here(load_test_server, "--model=toy", *arguments, f"--examples={tmp_path}/rows.jsonl")
        assert code == 0
        assert {text for texts in requests for text in texts} <= {"one", "two", "three", "four"}

        from keras_bert.tf_serving.client import RestClient

        with RestClient(url, "toy", retries=0) as client:
            rows = [{"text": "good"}] * 3 + [{"text": "fail"}]
            one = measure(lambda inputs: client.predict(**inputs), rows, 1, 2, seconds=0.3)
    assert one.failed > 0
    assert one.requests > one.failed


def test_bad_input_is_one_clear_line(tmp_path, run_here):
    with fake_server(0.001, 0, at_once=2) as (url, _):
        (tmp_path / "fail.jsonl").write_text('{"text": "fail"}')
        for arguments, reason in [
            (["--batch_sizes=0"], "--batch_sizes must be whole numbers from 1"),
            (["--concurrency=two"], "--concurrency must be whole numbers"),
            (["--lengths=x"], "--lengths must be whole numbers"),
            (["--signature=other"], "has no signature other"),
            ([f"--examples={tmp_path}/fail.jsonl"], "busy"),
            (
                [f"--examples={tmp_path}/fail.jsonl", f"--output_file={tmp_path}/./fail.jsonl"],
                "is read by this command",
            ),
            (["--output_file=a", "--batching_file=./a"], "output_file and batching_file name the same file"),
            (["--latency_ms=0.01", "--batch_sizes=1", "--seconds=0.1"], "Not even requests of 1 row"),
        ]:
            code, shown = run_here(load_test_server, "--model=toy", f"--url={url}", *arguments)
            assert (code, shown.err.count("\n")) == (1, 1)
            assert reason in shown.err
    code, shown = run_here(load_test_server, "--model=toy", "--url=http://127.0.0.1:1", "--seconds=0.1")
    assert (code, shown.err.count("\n")) == (1, 1)


def test_a_load_test_needs_no_tensorflow():
    program = "import sys, keras_bert.tf_serving.load_measurement; print(set(sys.modules) & {'tensorflow', 'keras'})"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
