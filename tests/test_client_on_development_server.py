"""The clients against the development server, with and without batching: the cases that every server must pass."""

import pathlib
import re

import pytest
from serving_client_cases import CASES, ServedClassifier
from test_client_on_servers import write_classifier

from keras_bert.tf_serving.client import RestClient
from keras_bert.tf_serving.server.batching import BatchingOptions
from keras_bert.tf_serving.server.model_config import ModelConfig
from keras_bert.tf_serving.server.run_server import ServerOptions, background_server


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "toy"
    write_classifier(folder)
    return folder


@pytest.fixture(scope="module", params=[None, BatchingOptions()], ids=["alone", "joined"])
def place(folder, request):
    options = ServerOptions(port=0, grpc_port=0, batching=request.param)
    with background_server([ModelConfig("toy", str(folder))], options) as addresses:
        place = ServedClassifier(f"http://127.0.0.1:{addresses.port}", f"127.0.0.1:{addresses.grpc_port}", "toy")
        with RestClient(place.url, "toy") as client:
            client.wait_until_available(timeout=60)
        yield place


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_clients_get_what_they_must_get(case, place):
    case(place)


def test_the_script_of_the_readme_prints_an_answer(place, capsys):
    page = (pathlib.Path(__file__).parent.parent / "README.md").read_text("utf-8")
    (script,) = [text for text in re.findall(r"```python\n(.*?)```", page, re.S) if "RestClient" in text]
    script = script.replace("http://127.0.0.1:8501", place.url).replace('"sentiment"', '"toy"')
    exec(compile(script, "README.md", "exec"), namespace := {})
    namespace["client"].close()
    label, probability = capsys.readouterr().out.strip().rsplit(" ", 1)
    assert label in ("animal", "no animal")
    assert 0.5 <= float(probability) <= 1
