"""The clients get the same answers from all servers: our fake, the development server and a real TensorFlow Serving.

KERAS_BERT_MODEL_SERVER is the path of a tensorflow_model_server; without it the tests on that server are skipped.
"""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import re
import socket
import subprocess

import numpy as np
import pytest
from fake_tf_serving import FakeTfServing
from slow_parameters import slow_except

from keras_bert.tf_serving.client import (
    AsyncGrpcClient,
    AsyncRestClient,
    GrpcClient,
    InvalidRequest,
    NotFound,
    RestClient,
)
from keras_bert.tf_serving.readable_answers import readable_answers

MODEL_SERVER = os.environ.get("KERAS_BERT_MODEL_SERVER")
TEXTS = [
    "the fox",
    "jump.",
    "",
    "the dog the dog the dog the dog the dog the dog",
    "NUL \0 caf\u00e9 \U0001f600",
    b"\xff",
]


@dataclasses.dataclass(frozen=True)
class ServedClassifier:
    """The address of a served model: text [B] -> label, probability, labels, probabilities; and its version."""

    url: str
    address: str
    model: str
    version: int = 1

    def rest(self, **options) -> RestClient:
        return RestClient(self.url, self.model, **options)

    def grpc(self, **options) -> GrpcClient:
        return GrpcClient(self.address, self.model, **options)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A folder with a tiny exported classifier as version 1."""
    import keras

    from keras_bert.config import BertConfig
    from keras_bert.serving.export import export_for_serving
    from keras_bert.tasks.classification.model import SequenceClassifier
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
    folder = tmp_path_factory.mktemp("served") / "toy"
    export_for_serving(model, folder)
    return folder


@contextlib.contextmanager
def fake_server():
    with contextlib.closing(FakeTfServing()) as server:
        yield ServedClassifier(server.url, server.address, "toy", version=3)


@contextlib.contextmanager
def development_server(classifier, batching: bool):
    from keras_bert.tf_serving.batching_parameters import Batching
    from keras_bert.tf_serving.server.model_config import ModelConfig
    from keras_bert.tf_serving.server.run_server import background_server
    from keras_bert.tf_serving.server.server_options import ServerOptions

    options = ServerOptions(port=0, grpc_port=0, batching=Batching() if batching else None)
    with background_server([ModelConfig("toy", str(classifier))], options) as addresses:
        yield ServedClassifier(f"http://127.0.0.1:{addresses.port}", f"127.0.0.1:{addresses.grpc_port}", "toy")


@contextlib.contextmanager
def real_server(classifier):
    # This server cannot choose a free port by itself.
    with socket.create_server(("127.0.0.1", 0)) as rest, socket.create_server(("127.0.0.1", 0)) as grpc:
        ports = rest.getsockname()[1], grpc.getsockname()[1]
    command = [MODEL_SERVER, "--model_name=toy", f"--model_base_path={classifier}", "--grpc_socket_path="]
    log = classifier.parent / "log"
    with open(log, "wb") as file:
        process = subprocess.Popen(
            [*command, f"--rest_api_port={ports[0]}", f"--port={ports[1]}"], stdout=file, stderr=file
        )
        try:
            yield ServedClassifier(f"http://127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}", "toy")
        finally:
            print(log.read_text("utf-8", "replace"))  # pytest shows it where a test fails
            process.terminate()
            process.wait(timeout=60)


@pytest.fixture(
    scope="module",
    params=slow_except(["fake", "development", "real"], ["fake", "development", "development with batching", "real"]),
)
def place(request):
    """A server, with a classifier that is available."""
    if request.param == "real" and not MODEL_SERVER:
        pytest.skip("KERAS_BERT_MODEL_SERVER names no tensorflow_model_server")
    if request.param == "fake":
        server = fake_server()
    elif request.param == "real":
        server = real_server(request.getfixturevalue("classifier"))
    else:
        server = development_server(request.getfixturevalue("classifier"), batching="batching" in request.param)
    with server as place:
        with place.rest() as client:
            client.wait_until_available(timeout=120)
        yield place


def test_both_transports_give_the_same_answers(place):
    with place.rest() as rest, place.grpc() as grpc:
        by_rest, by_grpc = rest.predict(text=TEXTS), grpc.predict(text=TEXTS)
    assert by_rest.keys() == by_grpc.keys() >= {"label", "probability", "labels", "probabilities"}
    for name, array in by_grpc.items():
        if array.dtype == object:
            assert by_rest[name].tolist() == array.tolist()
        else:
            np.testing.assert_allclose(by_rest[name], array, rtol=1e-5, atol=1e-6)
    assert by_grpc["probabilities"].shape == by_grpc["labels"].shape
    assert by_grpc["probabilities"].sum(-1) == pytest.approx(1, abs=1e-5)


def test_labels_and_their_probabilities_agree(place):
    with place.rest() as client:
        answer = client.predict(text=TEXTS)
    best = answer["probabilities"].argmax(-1)
    rows = np.arange(len(TEXTS))
    assert answer["label"].tolist() == answer["labels"][rows, best].tolist()
    assert answer["probability"].tolist() == answer["probabilities"][rows, best].tolist()
    shown = readable_answers(answer, {"text": TEXTS})
    assert all(text.strip().startswith(label) for text, label in zip(shown, answer["label"], strict=True))


def test_many_rows_keep_their_order(place):
    texts = [TEXTS[number % 5] for number in range(101)]
    for make in (place.rest, place.grpc):
        with make(batch_size=9) as client:
            together = client.predict(text=texts)["probabilities"]
            alone = np.concatenate([client.predict(text=[text])["probabilities"] for text in TEXTS[:5]])
        np.testing.assert_allclose(together, alone[np.arange(101) % 5], rtol=1e-4, atol=1e-5)


def test_threads_and_tasks_get_their_own_answers(place):
    with place.rest() as client:
        expected = {text: client.predict(text=[text])["probabilities"][0] for text in TEXTS[:4]}
    texts = [TEXTS[number % 4] for number in range(40)]
    for make in (place.rest, place.grpc):
        with make() as client, concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda text: client.predict(text=[text])["probabilities"][0], texts))
        np.testing.assert_allclose(found, [expected[text] for text in texts], rtol=1e-4, atol=1e-5)

    async def ask(kind, where):
        async with kind(where, place.model) as client:
            answers = await asyncio.gather(*(client.predict(text=[text]) for text in texts))
        return [answer["probabilities"][0] for answer in answers]

    for kind, where in ((AsyncRestClient, place.url), (AsyncGrpcClient, place.address)):
        found = asyncio.run(ask(kind, where))
        np.testing.assert_allclose(found, [expected[text] for text in texts], rtol=1e-4, atol=1e-5)


def test_metadata_and_status_say_what_is_served(place):
    for make in (place.rest, place.grpc):
        with make() as client:
            assert client.wait_until_available(timeout=30) == place.version
            found = client.metadata()
            states = {version.version: version.state for version in client.status()}
        assert (found.name, found.version) == (place.model, place.version)
        signature = found.signatures["serving_default"]
        assert {name: (tensor.dtype, tensor.shape) for name, tensor in signature.inputs.items()} == {
            "text": ("string", (None,))
        }
        assert signature.outputs["probabilities"].dtype == "float"
        assert states[place.version] == "AVAILABLE"


def test_classify_gives_the_same_as_predict(place):
    for make in (place.rest, place.grpc):
        with make() as client:
            predicted, classified = client.predict(text=TEXTS), client.classify("classify", text=TEXTS)
        assert classified["classes"].tolist() == predicted["labels"].tolist()
        np.testing.assert_allclose(classified["scores"], predicted["probabilities"], rtol=1e-5, atol=1e-6)


def test_what_is_not_there_is_not_found(place):
    for kind, where in ((RestClient, place.url), (GrpcClient, place.address)):
        for model, version in (("no_such_model", None), (place.model, place.version + 1000)):
            with kind(where, model, version) as client:
                with pytest.raises(NotFound):
                    client.predict(text=["a"])
                with pytest.raises(NotFound):
                    client.metadata()


def test_wrong_requests_are_refused(place):
    for make in (place.rest, place.grpc):
        with make() as client:
            for signature, inputs in (
                ("no_such_signature", {"text": ["a"]}),
                ("serving_default", {"txt": ["a"]}),
                ("serving_default", {"text": np.array([1.5], np.float32)}),
            ):
                with pytest.raises(InvalidRequest):
                    client.predict(signature, **inputs)
            # The server is still running.
            assert client.predict(text=["a"])["label"].shape == (1,)


def test_the_script_of_the_readme_prints_an_answer(place, capsys):
    page = (pathlib.Path(__file__).parent.parent / "README.md").read_text("utf-8")
    (script,) = [text for text in re.findall(r"```python\n(.*?)```", page, re.S) if "RestClient" in text]
    script = script.replace("http://127.0.0.1:8501", place.url).replace('"sentiment"', '"toy"')
    exec(compile(script, "README.md", "exec"), namespace := {})
    namespace["client"].close()
    label, probability = capsys.readouterr().out.strip().rsplit(" ", 1)
    assert label in ("animal", "no animal", "short", "long")
    assert 0.5 <= float(probability) <= 1
