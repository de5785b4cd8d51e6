"""What the clients must get from any server of TF Serving's API that has an exported classifier of single texts.

The cases are functions of `place`, a `ServedClassifier`. test_client_on_servers.py runs each against every server.
"""

import asyncio
import concurrent.futures
import dataclasses

import numpy as np
import pytest

from keras_bert.tf_serving.client import (
    AsyncGrpcClient,
    AsyncRestClient,
    GrpcClient,
    InvalidRequest,
    NotFound,
    RestClient,
)
from keras_bert.tf_serving.readable_answers import readable_answers

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
    """Where a model is served: text [B] -> label, probability, labels, probabilities; the version answers."""

    url: str
    address: str
    model: str
    version: int = 1

    def rest(self, **options) -> RestClient:
        return RestClient(self.url, self.model, **options)

    def grpc(self, **options) -> GrpcClient:
        return GrpcClient(self.address, self.model, **options)


def both_transports_give_the_same_answers(place):
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


def labels_and_their_probabilities_agree(place):
    with place.rest() as client:
        answer = client.predict(text=TEXTS)
    best = answer["probabilities"].argmax(-1)
    rows = np.arange(len(TEXTS))
    assert answer["label"].tolist() == answer["labels"][rows, best].tolist()
    assert answer["probability"].tolist() == answer["probabilities"][rows, best].tolist()
    shown = readable_answers(answer, {"text": TEXTS})
    assert all(text.strip().startswith(label) for text, label in zip(shown, answer["label"], strict=True))


def many_rows_keep_their_order(place):
    texts = [TEXTS[number % 5] for number in range(101)]
    for make in (place.rest, place.grpc):
        with make(batch_size=9) as client:
            together = client.predict(text=texts)["probabilities"]
            alone = np.concatenate([client.predict(text=[text])["probabilities"] for text in TEXTS[:5]])
        np.testing.assert_allclose(together, alone[np.arange(101) % 5], rtol=1e-4, atol=1e-5)


def threads_and_tasks_get_their_own_answers(place):
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


def metadata_and_status_say_what_is_served(place):
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


def classify_gives_the_same_as_predict(place):
    for make in (place.rest, place.grpc):
        with make() as client:
            predicted, classified = client.predict(text=TEXTS), client.classify("classify", text=TEXTS)
        assert classified["classes"].tolist() == predicted["labels"].tolist()
        np.testing.assert_allclose(classified["scores"], predicted["probabilities"], rtol=1e-5, atol=1e-6)


def what_is_not_there_is_not_found(place):
    for kind, where in ((RestClient, place.url), (GrpcClient, place.address)):
        for model, version in (("no_such_model", None), (place.model, place.version + 1000)):
            with kind(where, model, version) as client:
                with pytest.raises(NotFound):
                    client.predict(text=["a"])
                with pytest.raises(NotFound):
                    client.metadata()


def wrong_requests_are_refused(place):
    for make in (place.rest, place.grpc):
        with make() as client:
            for signature, inputs in (
                ("no_such_signature", {"text": ["a"]}),
                ("serving_default", {"txt": ["a"]}),
                ("serving_default", {"text": np.array([1.5], np.float32)}),
            ):
                with pytest.raises(InvalidRequest):
                    client.predict(signature, **inputs)
            # And the server lives.
            assert client.predict(text=["a"])["label"].shape == (1,)


CASES = [
    both_transports_give_the_same_answers,
    labels_and_their_probabilities_agree,
    many_rows_keep_their_order,
    threads_and_tasks_get_their_own_answers,
    metadata_and_status_say_what_is_served,
    classify_gives_the_same_as_predict,
    what_is_not_there_is_not_found,
    wrong_requests_are_refused,
]
