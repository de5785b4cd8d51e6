"""The serving kit: warm-up requests that the model answers, files that servers read, scripts that start them."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf
import tiny
from google.protobuf import text_format
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2
from trapped_models import ROWS, graph, save, sound_signature, spec, trapped_signatures

from keras_bert.program.errors import InputError
from keras_bert.serving.export import export_for_serving
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tf_serving.kit import making
from keras_bert.tf_serving.kit.kit_texts import check_image, kit_texts, kubernetes_name
from keras_bert.tf_serving.kit.making import make_serving_kit
from keras_bert.tf_serving.kit.warm_up import write_warm_up
from keras_bert.tf_serving.saved_model_check.checking import check
from keras_bert.tf_serving.saved_model_check.reading import read_saved_model
from keras_bert.tf_serving.saved_model_check.served_operations import DEFAULT_VERSIONS
from run_scripts import make_serving_kit as kit_command

VOCABULARY = tiny.vocabulary("the fox ##es jump dog .")
CONFIG = tiny.config(VOCABULARY)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A classifier of pairs: two text inputs, and ids with lengths."""
    model = SequenceClassifier(CONFIG, labels=["a", "b"])
    model.vocabulary = VOCABULARY
    return pathlib.Path(export_for_serving(model, tmp_path_factory.mktemp("m") / "Pairs_v1", text_pairs=True)).parent


@pytest.fixture(scope="module")
def kit(exported, tmp_path_factory):
    """A kit in a folder whose name needs quoting in shells."""
    return pathlib.Path(make_serving_kit(exported, tmp_path_factory.mktemp("kits") / "my kit & more"))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A SavedModel with one text input and a signature of serialised examples."""
    weights = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    texts = {"text": tf.io.FixedLenFeature([], tf.string)}

    @graph(spec([None], tf.string, "inputs"))
    def regress(inputs):
        return {"outputs": tf.strings.length(tf.io.parse_example(inputs, texts)["text"])}

    signatures = {"serving_default": sound_signature(weights), "regress": regress}
    return save(tmp_path_factory.mktemp("small") / "1", signatures, weights=weights)


def warm_up_requests(folder):
    """Reads a warm-up file with TensorFlow: (signature, input -> array) of each request."""
    path = os.path.join(folder, "assets.extra", "tf_serving_warmup_requests")
    records = [record.numpy() for record in tf.data.TFRecordDataset(os.fspath(path))]
    requests = [prediction_log_pb2.PredictionLog.FromString(record).predict_log.request for record in records]
    return [
        (request.model_spec.signature_name, {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()})
        for request in requests
    ]


def texts_of_a_kit(**changes) -> dict[str, str]:
    values = {"name": "a", "version": 1, "num_requests": 1, "image": "image", "model_bytes": 1}
    return kit_texts(**{**values, "pads": True, "request": "{}", **changes})


def test_a_kit_holds_the_model_its_configuration_and_how_to_start_it(kit, exported):
    files = {str(path.relative_to(kit)) for path in kit.rglob("*") if path.is_file()}
    assert files >= {"README.md", "serve.sh", "serve_with_docker.sh", "Dockerfile", "kubernetes.yaml"}
    assert files >= {f"config/{name}.config" for name in ("models", "batching", "monitoring")}
    model = "models/Pairs_v1/1"
    assert files >= {f"{model}/saved_model.pb", f"{model}/assets.extra/tf_serving_warmup_requests"}
    assert check(kit / "models" / "Pairs_v1").is_clean(strict=True)
    assert not (exported / "1" / "assets.extra").exists()
    [request] = [line for line in (kit / "README.md").read_text().splitlines() if line.startswith("curl -d")]
    assert json.loads(request.split("'")[1]) == {"inputs": {"text": ["..."], "text_b": ["..."]}}


def test_warm_up_asks_every_signature_and_the_default_one_in_several_sizes_and_lengths(kit):
    requests = warm_up_requests(kit / "models" / "Pairs_v1" / "1")
    texts = [inputs["text"] for name, inputs in requests if name == "serving_default"]
    assert [len(text) for text in texts] == [1, 2, 8, 32] * 3
    assert {len(text[0].split()) for text in texts} == {4, 24, 96}
    signatures = read_saved_model(kit / "models" / "Pairs_v1" / "1").signatures
    assert {name for name, _ in requests} == set(signatures)
    assert len(requests) == 12 + len(signatures) - 1


def test_examples_of_the_user_fill_the_requests(small):
    assert write_warm_up(small, [{"text": "ä film"}, {"text": "another"}], batch_sizes=[3]) == 2
    [(default, inputs), (regress, serialized)] = warm_up_requests(small)
    assert (default, regress) == ("serving_default", "regress")
    assert inputs["text"].tolist() == ["ä film".encode(), b"another", "ä film".encode()]
    [example] = map(tf.train.Example.FromString, serialized["inputs"].tolist())
    assert example.features.feature["text"].bytes_list.value[0].decode() == "ä film"


def test_lists_of_texts_are_filled_up(tmp_path):
    @graph(spec(ROWS, tf.string, "choices"))
    def count(choices):
        return {"y": tf.reduce_sum(tf.strings.length(choices), axis=1)}

    folder = save(tmp_path / "1", {"serving_default": count})
    write_warm_up(folder, [{"choices": ["a", "b\0"]}, {"choices": ["c"]}], batch_sizes=[2])
    [(_, inputs)] = warm_up_requests(folder)
    assert inputs["choices"].tolist() == [[b"a", b"b\0"], [b"c", b""]]
    write_warm_up(folder)
    assert {inputs["choices"].shape for _, inputs in warm_up_requests(folder)} == {(size, 2) for size in (1, 2, 8, 32)}


def test_without_tensorflow_serving_api_the_error_is_one_line(monkeypatch, small, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis", None)
    with pytest.raises(InputError, match=r"not installed.*pip install '.\[client\]'"):
        make_serving_kit(small, tmp_path / "kit")


@pytest.fixture(scope="module")
def picky(tmp_path_factory):
    """A SavedModel that takes texts of less than ten bytes."""

    @graph(spec([None], tf.string, "text"))
    def lower(text):
        with tf.control_dependencies([tf.debugging.assert_less(tf.strings.length(text), 10, "too long")]):
            return {"y": tf.strings.lower(text)}

    return save(tmp_path_factory.mktemp("picky") / "1", {"serving_default": lower})


@pytest.mark.parametrize(
    ("examples", "sizes", "message"),
    [
        ([{"text": "short"}, {"text": "not short at all"}], [1, 2], "request 2, .* serving_default, fails.*too long"),
        ([{"words": "a"}], [1], "Example 1 has the inputs words, but the model takes text"),
        ([{"text": 3}], [1], "must be a text"),
        ([{"text": "\ud800"}], [1], "half a surrogate pair"),
        ([], [0], "from 1"),
        ([{"text": "a"}], range(1, 1100), "1000 warm-up requests at most"),
    ],
)
def test_what_cannot_warm_the_model_up_is_refused(picky, examples, sizes, message):
    with pytest.raises(InputError, match=message):
        write_warm_up(picky, examples, sizes)
    assert not os.path.exists(os.path.join(picky, "assets.extra", "tf_serving_warmup_requests"))


def test_the_same_model_gets_the_same_warm_up_file(tmp_path, small):
    files = []
    for name in ("one", "other"):
        copy = pathlib.Path(shutil.copytree(small, tmp_path / name))
        write_warm_up(copy)
        files.append((copy / "assets.extra" / "tf_serving_warmup_requests").read_bytes())
    assert files[0] == files[1]


def test_the_templates_are_filled_in(kit):
    text = (kit / "config" / "models.config").read_text()
    [model] = text_format.Parse(text, model_server_config_pb2.ModelServerConfig()).model_config_list.config
    assert (model.name, model.base_path, model.model_platform) == ("Pairs_v1", "/models/Pairs_v1", "tensorflow")
    texts = texts_of_a_kit()
    assert '  path: "/monitoring/prometheus/metrics"\n' in texts["config/monitoring.config"]
    assert texts["config/batching.config"].splitlines() == [
        "max_batch_size { value: 64 }",  # the most rows that clients of this package send in a request
        "batch_timeout_micros { value: 1000 }",
        "max_enqueued_batches { value: 100 }",
        "pad_variable_length_inputs: true",
    ]
    assert "A request has at most 64 rows" in texts["README.md"]
    assert not [path for path, text in texts.items() if "@@" in text]
    manifest = texts_of_a_kit(model_bytes=400 << 20)["kubernetes.yaml"]
    assert re.findall(r"\d+Mi", manifest) == ["1600Mi", f"{512 + 600}Mi", f"{512 + 1200}Mi"]
    assert [kubernetes_name(name) for name in ("Pairs_v1", "a.b--c", "x" * 70)] == ["pairs-v1", "a-b-c", "x" * 50]


def test_names_and_images_that_need_quoting_are_refused(exported, tmp_path):
    for name in ("a b", "", "a/b", "-a", "$(id)"):
        with pytest.raises(InputError, match="name of a model"):
            make_serving_kit(exported, tmp_path / "kit", name=name)
    for image in ("", "-it", "a b", 'x"; touch /tmp/y; "', "$(id)", "a`id`", "a\nb: c"):
        with pytest.raises(InputError, match="name of a Docker image"):
            check_image(image)


def test_padding_by_the_server_is_on_where_it_does_no_harm(kit, tmp_path):
    weights = tf.Variable([[1.0]])
    signatures = {"serving_default": sound_signature(weights), "tokens": trapped_signatures()["padded-mask"][1]}
    folder = save(tmp_path / "m" / "1", signatures, weights=weights)
    made = pathlib.Path(make_serving_kit(folder, tmp_path / "kit"))
    for folder, pads, note in (
        (kit, "true", "Requests of different lengths are joined"),
        (made, "false", "must have the same number of columns"),
    ):
        assert f"pad_variable_length_inputs: {pads}\n" in (folder / "config" / "batching.config").read_text()
        assert note in (folder / "README.md").read_text()


def test_a_model_that_cannot_be_served_gets_no_kit(tmp_path):
    folder = save(tmp_path / "m" / "1", {"serving_default": trapped_signatures()["python-operation"][1]})
    for options, message in [({}, "python-operation"), ({"warm_up_batch_sizes": [1, 65]}, "at most 64 rows.* 65 rows")]:
        with pytest.raises(InputError, match=message):
            make_serving_kit(folder, tmp_path / "kit", **options)
    assert not (tmp_path / "kit").exists()


FAKE_SERVER = """#!/usr/bin/env bash
printf '%s\\n' "$@" > "${RECORD}/arguments"
exit 7
"""


@pytest.fixture
def fake(tmp_path):
    """A folder with programs `tensorflow_model_server` and `docker` that record their arguments; environment."""
    for name in ("tensorflow_model_server", "docker"):
        (tmp_path / name).write_text(FAKE_SERVER)
        (tmp_path / name).chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "RECORD": str(tmp_path)}


def test_the_bare_script_starts_the_server_with_absolute_folders(kit, fake, tmp_path):
    fake["REST_PORT"] = "9001"
    result = subprocess.run([kit / "serve.sh", "--extra=1"], env=fake, cwd="/", capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (7, "")
    given = dict(argument.split("=", 1) for argument in (tmp_path / "arguments").read_text().splitlines())
    files = [pathlib.Path(given.pop(name)) for name in ("--batching_parameters_file", "--monitoring_config_file")]
    assert all(file.is_file() for file in files)
    expected = {"--port": "8500", "--rest_api_port": "9001", "--enable_batching": "true"}
    expected |= {"--model_name": "Pairs_v1", "--model_base_path": f"{kit}/models/Pairs_v1"}
    assert given.items() >= (expected | {"--enable_model_warmup": "true", "--extra": "1"}).items()


def test_the_bare_script_says_when_no_server_is_installed(kit):
    environment = {**os.environ, "MODEL_SERVER": "no_such_server"}
    result = subprocess.run([kit / "serve.sh"], env=environment, capture_output=True, text=True)
    assert result.returncode == 1
    assert "no_such_server is not installed" in result.stderr


def test_the_docker_script_mounts_the_kit_and_opens_ports_to_this_machine_only(kit, fake, tmp_path):
    subprocess.run([kit / "serve_with_docker.sh"], env=fake, cwd="/")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    image = arguments.index("tensorflow/serving:2.19.1")
    assert arguments[0] == "run"
    assert {"127.0.0.1:8500:8500", "127.0.0.1:8501:8501"} <= set(arguments[:image])
    assert {f"{kit}/models:/models:ro", f"{kit}/config:/config:ro"} <= set(arguments[:image])
    assert "--model_config_file=/config/models.config" in arguments[image:]
    # The image and the manifest start the server in the same way.
    text = (kit / "Dockerfile").read_text()
    [command] = re.findall(r"^CMD (\[.*\])$", text, re.M | re.S)
    assert json.loads(command.replace("\\\n", "")) == arguments[image + 1 :]
    assert re.findall(r"^ +- (--\S+)$", (kit / "kubernetes.yaml").read_text(), re.M) == arguments[image + 1 :]
    assert dict(re.findall(r"^COPY (\S+) (\S+)$", text, re.M)) == {"models": "/models", "config": "/config"}


def test_the_manifest_is_yaml_whose_parts_fit_together(kit):
    yaml = pytest.importorskip("yaml")
    config, claim, deployment, service = yaml.safe_load_all((kit / "kubernetes.yaml").read_text())
    kinds = ["ConfigMap", "PersistentVolumeClaim", "Deployment", "Service"]
    assert [part["kind"] for part in (config, claim, deployment, service)] == kinds
    for name, text in config["data"].items():
        assert text == (kit / "config" / name).read_text()
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert labels == deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]
    metrics = {"scrape": "true", "port": "8501", "path": "/monitoring/prometheus/metrics"}
    assert template["metadata"]["annotations"] == {f"prometheus.io/{name}": value for name, value in metrics.items()}
    [container] = template["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/v1/models/Pairs_v1", "port": "rest"}
    assert {port["name"] for port in container["ports"]} == {port["targetPort"] for port in service["spec"]["ports"]}
    volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    assert volumes["models"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert volumes["config"]["configMap"]["name"] == config["metadata"]["name"]
    memory = {kind: int(values["memory"].removesuffix("Mi")) for kind, values in container["resources"].items()}
    assert 512 < memory["requests"] < memory["limits"]


@pytest.fixture
def run(small, tmp_path, run_here):
    """Runs the command for the small model: (*arguments) -> exit code, its output."""
    return lambda *more: run_here(kit_command, f"--saved_model={small}", f"--output_dir={tmp_path}/kit", *more)


def test_the_command_makes_a_kit_from_files(run, tmp_path):
    (tmp_path / "examples.jsonl").write_text('{"text": "the fox"}\n\n{"text": "dog"}\n')
    arguments = [f"--examples={tmp_path}/examples.jsonl", "--model_name=pairs", "--warm_up_batch_sizes=2"]
    code, shown = run(*arguments)
    assert (code, shown.err) == (0, "")
    requests = dict(warm_up_requests(tmp_path / "kit" / "models" / "pairs" / "1"))
    assert requests["serving_default"]["text"].tolist() == [b"the fox", b"dog"]
    code, shown = run(*arguments)
    assert (code, "is not empty" in shown.err) == (1, True)


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("--examples={}/bad.jsonl", "line 2 is not JSON"),
        ("--examples={}/none.jsonl", "There is no file"),
        ("--warm_up_batch_sizes=two", "whole numbers"),
        ("--model_name=a/b", "name of a model"),
        ("--image=a b", "name of a Docker image"),
    ],
)
def test_what_the_command_cannot_use_is_one_line(run, tmp_path, argument, reason):
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\nno json')
    code, shown = run(argument.format(tmp_path))
    assert code == (2 if "batch_sizes" in argument else 1)  # 2: the value of a flag
    assert (shown.err.count("\n"), reason in shown.err) == (1, True)


def test_a_kit_with_another_image_fits_that_version_only():
    assert making._versions_of("tensorflow/serving:2.20.0") == ("2.20",)
    assert making._versions_of("registry:5000/serving:2.21.0-gpu") == ("2.21",)
    for image in (making.DEFAULT_IMAGE, "tensorflow/serving", "tensorflow/serving:latest", "serving:2.200"):
        assert making._versions_of(image) == DEFAULT_VERSIONS
