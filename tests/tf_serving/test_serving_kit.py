"""The serving kit: warm-up requests that the model answers, files that servers read, scripts that start them."""

import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tiny
from trapped_models import ROWS, graph, save, sound_signature, spec, trapped_signatures

from keras_bert.program.errors import InputError
from keras_bert.serving.export import export_for_serving
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tf_serving.batching_parameters import Batching, read_batching_file
from keras_bert.tf_serving.client.request_batches import ROWS_OF_A_REQUEST
from keras_bert.tf_serving.kit import making
from keras_bert.tf_serving.kit.kit_texts import check_image, kit_texts, kubernetes_name
from keras_bert.tf_serving.kit.making import make_serving_kit
from keras_bert.tf_serving.kit.warm_up import write_warm_up
from keras_bert.tf_serving.saved_model_check.checking import check
from keras_bert.tf_serving.saved_model_check.reading import read_saved_model
from keras_bert.tf_serving.saved_model_check.served_operations import DEFAULT_VERSIONS
from keras_bert.tf_serving.server.model_config import ModelConfig, read_model_configs
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.tensors import tensor_proto_to_array
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
def with_examples(tmp_path_factory):
    """A SavedModel that has Classify and Regress, and a signature that only XLA can run."""
    weights = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    texts = {"text": tf.io.FixedLenFeature([], tf.string)}

    def lengths_of(examples):
        return tf.cast(tf.strings.length(tf.io.parse_example(examples, texts)["text"]), tf.float32)

    @graph(spec([None], tf.string, "inputs"))
    def classify(inputs):
        scores = lengths_of(inputs)[:, tf.newaxis] * weights[0]
        return {"classes": tf.fill(tf.shape(scores), "label"), "scores": scores}

    @graph(spec([None], tf.string, "inputs"))
    def regress(inputs):
        return {"outputs": lengths_of(inputs)}

    signatures = {"serving_default": sound_signature(weights), "classify": classify, "regress": regress}
    signatures["fast"] = trapped_signatures()["must-compile"][1]
    return save(tmp_path_factory.mktemp("examples") / "1", signatures, weights=weights)


def warm_up_logs(folder):
    """Reads a warm-up file with TensorFlow."""
    path = os.path.join(folder, "assets.extra", "tf_serving_warmup_requests")
    return [messages.PredictionLog.FromString(record.numpy()) for record in tf.data.TFRecordDataset(os.fspath(path))]


def texts_of_a_kit(**changes) -> dict[str, str]:
    values = {"name": "a", "version": 1, "num_requests": 1, "image": "image", "model_bytes": 1}
    return kit_texts(**{**values, "batching": making.DEFAULT_BATCHING, "request": "{}", **changes})


def test_a_kit_holds_the_model_its_configuration_and_how_to_start_it(kit, exported):
    files = {str(path.relative_to(kit)) for path in kit.rglob("*") if path.is_file()}
    assert files >= {
        "README.md",
        "serve.sh",
        "serve_with_docker.sh",
        "Dockerfile",
        "kubernetes.yaml",
        "config/models.config",
        "config/batching.config",
        "config/monitoring.config",
        "models/Pairs_v1/1/saved_model.pb",
        "models/Pairs_v1/1/assets.extra/tf_serving_warmup_requests",
    }
    assert check(kit / "models" / "Pairs_v1").is_clean(strict=True)
    assert not (exported / "1" / "assets.extra").exists()
    [request] = [line for line in (kit / "README.md").read_text().splitlines() if line.startswith("curl -d")]
    body = json.loads(request.split("'")[1])
    assert body == {"inputs": {"text": ["..."], "text_b": ["..."]}}


def test_warm_up_asks_every_signature_and_the_default_one_in_several_sizes_and_lengths(kit):
    logs = warm_up_logs(kit / "models" / "Pairs_v1" / "1")
    requests = [log.predict_log.request for log in logs if log.HasField("predict_log")]
    default = [request for request in requests if request.model_spec.signature_name == "serving_default"]
    texts = [tensor_proto_to_array(request.inputs["text"]) for request in default]
    assert {len(text) for text in texts} == {1, 2, 8, 32}
    assert {len(text[0].split()) for text in texts} == {4, 24, 96}
    assert len(default) == 12
    signatures = read_saved_model(str(kit / "models" / "Pairs_v1" / "1")).signatures
    assert {request.model_spec.signature_name for request in requests} == set(signatures) - {"classify", "regress"}


def test_warm_up_has_classify_and_regress_requests_but_none_that_stock_servers_fail(with_examples):
    assert write_warm_up(with_examples, [{"text": "a film"}, {"text": "another"}], batch_sizes=[3]) == 3
    logs = warm_up_logs(with_examples)
    assert [log.WhichOneof("log_type") for log in logs] == ["predict_log", "classify_log", "regress_log"]
    examples = logs[1].classify_log.request.input.example_list.examples
    assert [list(example.features.feature["text"].bytes_list.value) for example in examples] == [
        [b"a film"],
        [b"another"],
        [b"a film"],
    ]
    assert logs[1].classify_log.request.model_spec.signature_name == "classify"
    # TensorFlow reads them as its own.
    parsed = tf.train.Example.FromString(examples[0].SerializeToString())
    assert parsed.features.feature["text"].bytes_list.value[0] == b"a film"
    assert "warm-up" not in [finding.trap for finding in check(with_examples).findings]


def test_warm_up_requests_that_the_model_does_not_answer_are_refused(tmp_path, exported):
    @graph(spec([None], tf.string, "text"))
    def picky(text):
        with tf.control_dependencies([tf.debugging.assert_less(tf.strings.length(text), 10, "too long")]):
            return {"y": tf.strings.lower(text)}

    folder = save(tmp_path / "picky" / "1", {"serving_default": picky})
    with pytest.raises(InputError, match="request 2, for the signature serving_default, fails"):
        write_warm_up(folder, [{"text": "short"}, {"text": "not short at all"}], batch_sizes=[1, 2])
    assert not os.path.exists(os.path.join(folder, "assets.extra", "tf_serving_warmup_requests"))
    for examples, sizes, reason in [
        ([{"words": "a"}], [1], "Example 1 has the inputs words, but the model takes text"),
        ([{"text": 3}], [1], "must be a text"),
        ([], [0], "from 1"),
        ([{"text": "a"}], range(1, 1100), "1000 warm-up requests at most"),
    ]:
        with pytest.raises(InputError, match=reason):
            write_warm_up(folder, examples, sizes)


def test_the_same_model_gets_the_same_warm_up_file(tmp_path, with_examples):
    files = []
    for name in ("one", "other"):
        copy = pathlib.Path(shutil.copytree(with_examples, tmp_path / name))
        write_warm_up(copy)
        files.append((copy / "assets.extra" / "tf_serving_warmup_requests").read_bytes())
    assert files[0] == files[1]


def test_the_templates_are_filled_in(kit):
    assert read_model_configs(str(kit / "config" / "models.config")) == [ModelConfig("Pairs_v1", "/models/Pairs_v1")]
    monitoring = texts_of_a_kit()["config/monitoring.config"]
    assert monitoring == 'prometheus_config {\n  enable: true\n  path: "/monitoring/prometheus/metrics"\n}\n'
    assert not [path for path, text in texts_of_a_kit().items() if "@@" in text]


@pytest.mark.parametrize("name", ["a b", "", "a/b", "-a", "$(id)"])
def test_names_that_need_quoting_are_refused(exported, tmp_path, name):
    with pytest.raises(InputError, match="name of a model"):
        make_serving_kit(exported, tmp_path / "kit", name=name)


def test_other_mistakes_in_configuration_files_are_refused():
    for image in ("", "-it", "a b", 'x"; touch /tmp/y; "', "$(id)", "a`id`", "a\nb: c"):
        with pytest.raises(InputError, match="name of a Docker image"):
            check_image(image)


def test_padding_by_the_server_is_on_where_it_does_no_harm_and_refused_elsewhere(kit, tmp_path):
    assert read_batching_file(kit / "config" / "batching.config").pad_variable_length_inputs

    @graph(spec(ROWS, tf.int32, "input_ids"), spec(ROWS, tf.int32, "input_mask"))
    def masked(input_ids, input_mask):
        return {"y": tf.reduce_sum(input_ids * input_mask, axis=1)}

    weights = tf.Variable([[1.0]])
    signatures = {"serving_default": sound_signature(weights), "tokens": masked}
    folder = save(tmp_path / "m" / "1", signatures, weights=weights)
    with pytest.raises(InputError, match="signature tokens, input 'input_ids', 'input_mask': With pad_variable"):
        make_serving_kit(folder, tmp_path / "kit", batching=Batching(pad_variable_length_inputs=True))
    assert not (tmp_path / "kit").exists()
    made = make_serving_kit(folder, tmp_path / "kit")
    assert not read_batching_file(pathlib.Path(made, "config", "batching.config")).pad_variable_length_inputs
    assert "must have the same number of columns" in pathlib.Path(made, "README.md").read_text()
    assert "Requests of different lengths are joined" in (kit / "README.md").read_text()


@pytest.mark.slow
def test_a_kit_takes_the_requests_of_our_clients_and_its_own_warm_up(kit, exported, with_examples, tmp_path, caplog):
    assert read_batching_file(kit / "config" / "batching.config").largest_request == ROWS_OF_A_REQUEST
    assert list(check(kit / "models" / "Pairs_v1", batching=making.DEFAULT_BATCHING).findings) == []
    made = make_serving_kit(with_examples, tmp_path / "small", name="small", batching=Batching(max_batch_size=4))
    logs = warm_up_logs(os.path.join(made, "models", "small", "1"))
    requests = [log.predict_log.request for log in logs if log.HasField("predict_log")]
    default = [request for request in requests if request.model_spec.signature_name == "serving_default"]
    assert {request.inputs["text"].tensor_shape.dim[0].size for request in default} == {1, 2, 4}
    assert "clients with batch_size=4" in caplog.text
    assert "A request has at most 4 rows" in pathlib.Path(made, "README.md").read_text()
    with pytest.raises(
        InputError, match="requests of at most 4 row.* but a warm-up request has 8.* the version does not load"
    ):
        make_serving_kit(exported, tmp_path / "kit", batching=Batching(max_batch_size=4), warm_up_batch_sizes=[1, 8])
    splitting = Batching(max_batch_size=64, enable_large_batch_splitting=True, max_execution_batch_size=8)
    with pytest.raises(InputError, match="signature tokenize, output .*'input_ids'.* servers split requests"):
        make_serving_kit(exported, tmp_path / "kit", batching=splitting)
    assert not (tmp_path / "kit").exists()


def test_a_model_that_cannot_be_served_gets_no_kit(tmp_path):
    folder = save(tmp_path / "m" / "1", {"serving_default": trapped_signatures()["composite-output"][1]})
    with pytest.raises(InputError, match="cannot serve .* output 'words': It is a ragged or sparse tensor"):
        make_serving_kit(folder, tmp_path / "kit")
    assert not (tmp_path / "kit").exists()


FAKE_SERVER = """#!/usr/bin/env bash
printf '%s\\n' "$@" > "${RECORD}/arguments"
for argument in "$@"; do
  case "${argument}" in --model_config_file=*) cp "${argument#*=}" "${RECORD}/models.config" ;; esac
done
if [ -n "${WAIT:-}" ]; then trap 'echo stopped > "${RECORD}/stopped"; exit 0' TERM; touch "${RECORD}/started"
  for _ in $(seq 300); do sleep 0.1; done; fi
exit 7
"""


@pytest.fixture
def fake(tmp_path):
    """A folder with programs `tensorflow_model_server` and `docker` that record their arguments; environment."""
    for name in ("tensorflow_model_server", "docker"):
        (tmp_path / name).write_text(FAKE_SERVER)
        (tmp_path / name).chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "RECORD": str(tmp_path), "TMPDIR": str(tmp_path)}


def test_the_bare_script_starts_the_server_with_absolute_folders(kit, fake, tmp_path):
    fake["REST_PORT"] = "9001"
    result = subprocess.run([kit / "serve.sh", "--extra=1"], env=fake, cwd="/", capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (7, "")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert {"--port=8500", "--rest_api_port=9001", "--enable_batching=true", "--enable_model_warmup=true"} <= set(
        arguments
    )
    assert arguments[-1] == "--extra=1"
    given = dict(argument.split("=", 1) for argument in arguments)
    assert read_batching_file(pathlib.Path(given["--batching_parameters_file"]))
    assert pathlib.Path(given["--monitoring_config_file"]).is_file()
    [model] = read_model_configs(tmp_path / "models.config")
    assert (model.name, model.base_path) == ("Pairs_v1", f"{kit}/models/Pairs_v1")
    assert os.path.isdir(model.base_path)
    assert not list(tmp_path.glob("tmp.*")), "the temporary folder is left behind"


def test_the_bare_script_passes_a_signal_on_and_cleans_up(kit, fake, tmp_path):
    fake["WAIT"] = "1"
    process = subprocess.Popen([kit / "serve.sh"], env=fake)
    for _ in itertools.count():
        if (tmp_path / "started").exists():
            break
        assert process.poll() is None
    process.terminate()
    assert process.wait(120) == 0
    assert (tmp_path / "stopped").exists()
    assert not list(tmp_path.glob("tmp.*"))


@pytest.mark.parametrize("moment", ['server_process="$!"', "wait *", '[ -n "${signalled}" ]', 'exit "${status}"'])
def test_a_signal_at_any_moment_ends_the_server_and_cleans_up(kit, fake, tmp_path, moment):
    # Bash runs this before each command of the script; it sends the signal just before the chosen command.
    pattern = "".join(letter if letter == "*" else f"\\{letter}" for letter in moment)
    (tmp_path / "before").write_text(
        f"""if [[ "$0" == */serve.sh ]]; then
trap 'case "$BASH_COMMAND" in {pattern})
  for _ in $(seq 100); do if [ -e "$RECORD/started" ]; then break; fi; sleep 0.1; done
  trap - DEBUG; kill -TERM $$;; esac' DEBUG
fi
"""
    )
    fake |= {"WAIT": "1", "BASH_ENV": str(tmp_path / "before")}
    if moment.startswith("exit"):
        fake["WAIT"] = ""  # the server ends by itself, with 7
        (tmp_path / "started").touch()
    result = subprocess.run([kit / "serve.sh"], env=fake, timeout=120)
    if moment.startswith("exit"):
        assert result.returncode == 7
    else:
        assert result.returncode == 0
        assert (tmp_path / "stopped").exists()
    assert not list(tmp_path.glob("tmp.*"))


def test_the_bare_script_says_when_no_server_is_installed(kit):
    environment = {**os.environ, "MODEL_SERVER": "no_such_server"}
    result = subprocess.run([kit / "serve.sh"], env=environment, capture_output=True, text=True)
    assert result.returncode == 1
    assert "no_such_server is not installed" in result.stderr


def test_the_docker_script_mounts_the_kit_and_opens_ports_to_this_machine_only(kit, fake, tmp_path):
    subprocess.run([kit / "serve_with_docker.sh"], env=fake, cwd="/")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[0] == "run"
    assert {
        "127.0.0.1:8500:8500",
        "127.0.0.1:8501:8501",
        f"{kit}/models:/models:ro",
        f"{kit}/config:/config:ro",
    } <= set(arguments)
    assert "tensorflow/serving:2.19.1" in arguments
    assert arguments.index("tensorflow/serving:2.19.1") < arguments.index("--model_config_file=/config/models.config")


def test_the_image_and_the_manifest_start_the_server_as_the_docker_script_does(kit, fake, tmp_path):
    subprocess.run([kit / "serve_with_docker.sh"], env=fake, cwd="/")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    text = (kit / "Dockerfile").read_text()
    [command] = re.findall(r"^CMD (\[.*\])$", text, re.M | re.S)
    expected = arguments[arguments.index("tensorflow/serving:2.19.1") + 1 :]
    assert json.loads(command.replace("\\\n", "")) == expected
    assert re.findall(r"^ +- (--\S+)$", (kit / "kubernetes.yaml").read_text(), re.M) == expected
    copied = dict(re.findall(r"^COPY (\S+) (\S+)$", text, re.M))
    assert copied == {"models": "/models", "config": "/config"}
    assert all((kit / folder).is_dir() for folder in copied)
    linter = os.path.join(os.path.dirname(sys.executable), "hadolint")
    if os.path.exists(linter):
        assert subprocess.run([linter, kit / "Dockerfile"], capture_output=True, text=True).stdout == ""


def test_scripts_name_only_flags_that_servers_have(kit):
    # tensorflow_serving/model_servers/main.cc
    known = {"port", "rest_api_port", "enable_batching", "batching_parameters_file", "model_config_file"}
    known |= {"monitoring_config_file", "file_system_poll_wait_seconds", "max_num_load_retries"}
    known |= {"enable_model_warmup", "rest_api_timeout_in_ms"}
    docker = {"rm", "init", "publish", "volume", "tag"}
    for name in ("serve.sh", "serve_with_docker.sh", "kubernetes.yaml", "Dockerfile"):
        named = set(re.findall(r"(?<![\w-])--([a-z_]+)", (kit / name).read_text()))
        assert named <= known | docker
        assert "model_config_file" in named


def test_the_manifest_is_yaml_whose_parts_fit_together(kit):
    yaml = pytest.importorskip("yaml")
    config, claim, deployment, service = yaml.safe_load_all((kit / "kubernetes.yaml").read_text())
    assert [part["kind"] for part in (config, claim, deployment, service)] == [
        "ConfigMap",
        "PersistentVolumeClaim",
        "Deployment",
        "Service",
    ]
    for name, text in config["data"].items():
        assert text == (kit / "config" / name).read_text()
    template = deployment["spec"]["template"]
    assert (
        template["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]
    )
    assert template["metadata"]["annotations"] == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "8501",
        "prometheus.io/path": "/monitoring/prometheus/metrics",
    }
    [container] = template["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/v1/models/Pairs_v1", "port": "rest"}
    assert {port["name"] for port in container["ports"]} == {port["targetPort"] for port in service["spec"]["ports"]}
    volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    assert volumes["models"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert volumes["config"]["configMap"]["name"] == config["metadata"]["name"]
    memory = {kind: int(values["memory"].removesuffix("Mi")) for kind, values in container["resources"].items()}
    assert 512 < memory["requests"] < memory["limits"]


def test_memory_in_the_manifest_follows_the_size_of_the_model():
    text = texts_of_a_kit(model_bytes=400 << 20)["kubernetes.yaml"]
    assert f"memory: {512 + 600}Mi" in text
    assert f"memory: {512 + 1200}Mi" in text
    assert "storage: 1600Mi" in text


def test_names_for_kubernetes_have_the_characters_that_it_takes():
    assert [kubernetes_name(name) for name in ("Pairs_v1", "a.b--c", "x" * 70)] == ["pairs-v1", "a-b-c", "x" * 50]


def test_the_command_makes_a_kit_from_files(with_examples, tmp_path, run_here):
    (tmp_path / "examples.jsonl").write_text('{"text": "the fox"}\n\n{"text": "dog"}\n')
    (tmp_path / "batching.config").write_text(Batching(max_batch_size=7).text())

    def run(*arguments):
        return run_here(kit_command, f"--saved_model={with_examples}", f"--output_dir={tmp_path}/kit", *arguments)

    files = [f"--examples={tmp_path}/examples.jsonl", f"--batching_file={tmp_path}/batching.config"]
    code, shown = run(*files, "--model_name=pairs", "--warm_up_batch_sizes=2")
    assert code == 0
    assert shown.err.startswith("Warning: batching file: It accepts requests of at most 7 row(s), but the clients of ")
    assert shown.err.count("\n") == 1
    [log] = [
        log
        for log in warm_up_logs(tmp_path / "kit" / "models" / "pairs" / "1")
        if log.HasField("predict_log") and log.predict_log.request.model_spec.signature_name == "serving_default"
    ]
    np.testing.assert_array_equal(
        tensor_proto_to_array(log.predict_log.request.inputs["text"]), np.array([b"the fox", b"dog"], object)
    )
    assert read_batching_file(tmp_path / "kit" / "config" / "batching.config").max_batch_size == 7
    code, shown = run(*files)
    assert code == 1
    assert "is not empty" in shown.err
    shutil.rmtree(tmp_path / "kit")
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\nno json')
    for arguments, reason in [
        ([f"--examples={tmp_path}/bad.jsonl"], "line 2 is not JSON"),
        ([f"--examples={tmp_path}/none.jsonl"], "Cannot read"),
        (["--warm_up_batch_sizes=two"], "whole numbers"),
        (["--model_name=a/b"], "name of a model"),
        (["--image=a b"], "name of a Docker image"),
    ]:
        code, shown = run(*arguments)
        assert (code, shown.err.count("\n")) == (1, 1)
        assert reason in shown.err


def test_a_kit_with_another_image_fits_that_version_only():
    assert making._versions_of("tensorflow/serving:2.20.0") == ("2.20",)
    assert making._versions_of("registry:5000/serving:2.21.0-gpu") == ("2.21",)
    for image in (making.DEFAULT_IMAGE, "tensorflow/serving", "tensorflow/serving:latest", "serving:2.200"):
        assert making._versions_of(image) == DEFAULT_VERSIONS
