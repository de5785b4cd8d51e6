"""The clients against every server that there is: our fake one, and a real tensorflow_model_server if one is named.

KERAS_BERT_MODEL_SERVER is the path of a tensorflow_model_server; without it those tests are skipped.
"""

import os
import socket
import subprocess

import pytest
from fake_tf_serving import FakeTfServing
from serving_client_cases import CASES, ServedClassifier

from keras_bert.tf_serving.client import RestClient, ServingError

MODEL_SERVER = os.environ.get("KERAS_BERT_MODEL_SERVER")


@pytest.fixture(scope="module")
def fake_server():
    server = FakeTfServing()
    yield ServedClassifier(server.url, server.address, "toy", version=3)
    server.close()


def write_classifier(folder) -> None:
    """Exports a tiny classifier as version 1."""
    import keras

    from keras_bert.config import BertConfig
    from keras_bert.models.sequence_classifier import SequenceClassifier
    from keras_bert.serving.export import export_for_serving
    from keras_bert.tokenization.vocabulary import Vocabulary

    keras.utils.set_random_seed(1)
    vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "fox", "jump", "dog", "."])
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        initializer_range=0.5,
    )
    model = SequenceClassifier(config, labels=["animal", "no animal"])
    model.vocabulary = vocabulary
    export_for_serving(model, folder)


def wait_for(client, process, log) -> None:
    for _ in range(60):
        try:
            client.wait_until_available(timeout=2)
            return
        except ServingError:
            assert process.poll() is None, f"the server has ended:\n{log.read_text('utf-8', 'replace')}"
    raise AssertionError(f"the server does not serve:\n{log.read_text('utf-8', 'replace')}")


@pytest.fixture(scope="module")
def model_server(tmp_path_factory):
    if not MODEL_SERVER:
        pytest.skip("KERAS_BERT_MODEL_SERVER names no tensorflow_model_server")
    folder = tmp_path_factory.mktemp("served")
    write_classifier(folder / "toy")
    # This server cannot choose a free port by itself.
    with socket.create_server(("127.0.0.1", 0)) as rest, socket.create_server(("127.0.0.1", 0)) as grpc:
        ports = rest.getsockname()[1], grpc.getsockname()[1]
    command = [MODEL_SERVER, "--model_name=toy", f"--model_base_path={folder / 'toy'}"]
    command += [f"--rest_api_port={ports[0]}", f"--port={ports[1]}", "--grpc_socket_path="]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            place = ServedClassifier(f"http://127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}", "toy")
            with RestClient(place.url, "toy") as client:
                wait_for(client, process, folder / "log")
            yield place
        finally:
            process.terminate()
            process.wait(timeout=60)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_on_our_fake_server(case, fake_server):
    case(fake_server)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_on_a_real_model_server(case, model_server):
    case(model_server)
