"""Names select the right strategies, and processes that train together agree."""

import json

import pytest
import tensorflow as tf

from keras_bert.program.errors import InputError
from keras_bert.training.strategies import (
    call_in_chief,
    check_batch_size,
    check_tf_config,
    check_workers_agree,
    is_chief,
    make_strategy,
    run_in_chief,
)

WORKERS = {"worker": ["localhost:1", "localhost:2"]}


def test_names_of_strategies():
    assert make_strategy("off") is tf.distribute.get_strategy()
    assert isinstance(make_strategy("one_device"), tf.distribute.OneDeviceStrategy)
    mirrored = make_strategy("mirrored")
    assert isinstance(mirrored, tf.distribute.MirroredStrategy)
    assert mirrored.num_replicas_in_sync == len(tf.config.list_logical_devices("CPU"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs the environment variable TF_CONFIG"),
        ("{", "must list the workers and the index"),
        (json.dumps({"cluster": WORKERS}), "must list the workers and the index"),
        (json.dumps({"cluster": WORKERS, "task": {"type": "worker", "index": 2}}), "must list the workers"),
        (json.dumps({"cluster": WORKERS, "task": {"type": "ps", "index": 0}}), "must list the workers"),
        (json.dumps({"cluster": {"worker": ["a", "b"]}, "task": {"type": "worker", "index": 0}}), "must list the w"),
    ],
)
def test_a_wrong_tf_config_is_refused(text, message, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(InputError, match=message):
        make_strategy("multi_worker_mirrored")


def test_a_valid_tf_config_is_accepted():
    check_tf_config(json.dumps({"cluster": WORKERS, "task": {"type": "worker", "index": 1}}))
    check_tf_config(json.dumps({"cluster": {"chief": ["a:1"], **WORKERS}, "task": {"type": "chief", "index": 0}}))


class Cluster:
    """A resolver as TensorFlow makes it from TF_CONFIG."""

    def __init__(self, cluster, task_type, task_id):
        self.task_type, self.task_id, self._cluster = task_type, task_id, cluster

    def cluster_spec(self):
        return tf.train.ClusterSpec(self._cluster)


@pytest.mark.parametrize(
    ("cluster", "task", "expected"),
    [
        (WORKERS, ("worker", 0), True),
        (WORKERS, ("worker", 1), False),
        ({"chief": ["a:1"], **WORKERS}, ("chief", 0), True),
        ({"chief": ["a:1"], **WORKERS}, ("worker", 0), False),
        ({"worker": ["localhost:1"]}, ("worker", 0), True),
    ],
)
def test_one_process_writes_the_files(cluster, task, expected, monkeypatch):
    strategy = tf.distribute.get_strategy()
    assert is_chief()
    monkeypatch.setattr(type(strategy), "cluster_resolver", Cluster(cluster, *task), raising=False)
    assert is_chief() == expected


def test_a_batch_that_cannot_be_divided_is_refused():
    check_batch_size(8, num_parts=4)
    with pytest.raises(InputError, match="batch of 8 .* 1 device.*, 3 part.* each. Use a multiple of 3"):
        check_batch_size(8, num_parts=3)


def test_a_single_process_is_its_own_chief():
    check_workers_agree({"train_batch_size": 8})
    assert call_in_chief(lambda: [1, None]) == [1, None]
    with pytest.raises(InputError, match="not so"):
        run_in_chief(tf.distribute.get_strategy(), refuse)


def refuse():
    raise InputError("not so")


def test_a_tpu_that_does_not_answer_is_named(monkeypatch):
    def resolver(tpu):
        raise ValueError("Could not lookup TPU metadata\nPlease doublecheck")

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", resolver)
    with pytest.raises(InputError, match="No TPU answers at node-1 .Could not lookup TPU.*--tpu_name"):
        make_strategy("tpu", "node-1")


def test_the_tpu_that_answers_is_connected_and_started(monkeypatch):
    calls = []

    class Resolver:
        def __init__(self, tpu):
            calls.append(("resolve", tpu))

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", Resolver)
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", lambda resolver: calls.append("connect"))
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", lambda resolver: calls.append("start"))
    monkeypatch.setattr(tf.distribute, "TPUStrategy", lambda resolver: (calls.append("strategy"), resolver)[1])
    assert isinstance(make_strategy("tpu", "grpc://10.0.0.1:8470"), Resolver)
    assert calls == [("resolve", "grpc://10.0.0.1:8470"), "connect", "start", "strategy"]
