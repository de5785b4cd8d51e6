"""The check of SavedModels: every problem is found in a SavedModel that has it, and a sound one has no findings."""

import json
import os
import pathlib
import shutil
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl import flags
from trapped_models import BATCH, graph, save, sound_signature, spec, trapped_signatures

import keras_bert.serving
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.variables_index import read_index
from keras_bert.tf_serving.saved_model_check.checking import check, require_servable
from keras_bert.tf_serving.saved_model_check.served_operations import NEWER_THAN_2_12, NEWER_THAN_2_20, TEXT_SINCE
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.tensors import array_to_tensor_proto
from keras_bert.tokenization.vocabulary import Vocabulary
from run_scripts import check_saved_model

VOCABULARY = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "fox", "##es", "jump", "dog", "."])
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY),
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
)


def found(report, severities=("error", "warning", "note")):
    return [(finding.severity, finding.trap) for finding in report.findings if finding.severity in severities]


@pytest.fixture(scope="module")
def trapped(tmp_path_factory):
    """Trap -> its severity, and the report about a model that has all traps."""
    signatures = trapped_signatures()
    folder = save(tmp_path_factory.mktemp("trapped"), {trap: function for trap, (_, function) in signatures.items()})
    return {trap: severity for trap, (severity, _) in signatures.items()}, check(folder)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A SavedModel without a trap, with a variable and an asset. Tests change copies of it."""
    folder = tmp_path_factory.mktemp("sound")
    (folder / "vocab.txt").write_text("the\nfox\n")
    weights = tf.Variable(np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32))
    asset = tf.saved_model.Asset(str(folder / "vocab.txt"))
    return save(folder / "1", {"serving_default": sound_signature(weights)}, weights=weights, vocabulary=asset)


@pytest.fixture
def copied(sound, tmp_path):
    return pathlib.Path(shutil.copytree(sound, tmp_path / "model" / "1"))


def test_a_sound_model_of_another_origin_has_nothing_to_complain_about(sound):
    report = check(sound)
    assert report.findings == ()
    assert report.is_clean(strict=True)


def test_exports_of_this_package_have_neither_errors_nor_warnings(served):
    for name in ("single", "masked"):
        folder = pathlib.Path(served[1][name])
        report = check(folder.parent)
        assert report.is_clean(strict=True), report
        assert report.path == str(folder)


def test_each_trapped_signature_has_its_trap_and_no_other(trapped):
    severities, report = trapped
    for trap, severity in severities.items():
        of_signature = [
            (finding.severity, finding.trap)
            for finding in report.findings
            if f"signature {trap}," in f"{finding.where}," and finding.trap != "no-default-signature"
        ]
        expected = {(severity, trap)} | ({("error", "missing-operation")} if trap == "newer-operation" else set())
        assert set(of_signature) == expected, trap
    assert ("warning", "no-default-signature") in found(report)
    assert not report.is_clean()


def test_findings_say_where_what_happens_and_what_to_do_with_errors_first(trapped):
    _, report = trapped
    severities = [finding.severity for finding in report.findings]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    [ragged] = [finding for finding in report.findings if finding.trap == "composite-output"]
    assert str(ragged).startswith("error: composite-output, signature composite-output, output 'words'\n")
    assert "was not found in the Graph" in ragged.happens
    assert "to_tensor()" in ragged.remedy
    assert "for TensorFlow Serving 2.12 to 2.21; needs of TensorFlow Text: " in str(report).splitlines()[-1]


def test_operations_are_missing_in_some_servers_only(trapped):
    _, report = trapped
    missing = {
        finding.where.split(",")[0]: finding.happens for finding in report.findings if "operation" in finding.trap
    }
    assert "2.12 to 2.19 does not include it" in missing["operation TFText>RoundRobinTrim"]
    for versions, is_missing in ((["2.20", "2.21"], False), (["2.19"], True), (["2.20", "2.12"], True)):
        found_now = found(check(report.path, versions))
        assert (("error", "missing-operation") in found_now) == is_missing, versions


def test_a_jit_default_signature_is_an_error_and_so_are_functions_inside(tmp_path):
    @graph(spec(BATCH, tf.float32, "x"), jit_compile=True)
    def compiled(x):
        return x * 2.0

    @graph(spec(BATCH, tf.float32, "x"))
    def outer(x):
        return {"y": compiled(x)}

    report = check(save(tmp_path, {"serving_default": outer}))
    assert found(report) == [("error", "must-compile")]
    assert "--xla_cpu_compilation_enabled" in report.errors[0].remedy


def test_names_with_spaces_and_a_copy_of_the_default_signature_are_found(tmp_path):
    weights = tf.Variable([[1.0, 2.0]])
    score = sound_signature(weights)
    report = check(save(tmp_path, {"serving_default": score, "serve": score, "1 score/x": score}, weights=weights))
    assert found(report) == [("warning", "signature-name"), ("note", "same-signature-twice")]


def test_a_model_without_signatures_is_an_error(tmp_path):
    module = tf.Module()
    module.weights = tf.Variable([1.0, 2.0])
    tf.saved_model.save(module, tmp_path)
    assert found(check(tmp_path)) == [("error", "no-signature")]


def test_an_operation_that_nobody_links_is_an_error(copied):
    edit_graph(copied, lambda graph: rename_operation(graph, "StringLength", "MyOwnOperation"))
    findings = check(copied).findings
    assert [finding.trap for finding in findings] == ["custom-operation", "stale-fingerprint"]
    assert "MyOwnOperation, in signature serving_default" in findings[0].where
    assert "saved_model.pb changed" in findings[1].happens


def test_an_export_that_cannot_be_served_is_refused_with_its_errors(sound, trapped):
    require_servable(sound)
    with pytest.raises(InputError, match=r"cannot be served\. composite-output, signature composite-output, output"):
        require_servable(trapped[1].path)


def test_the_check_is_a_name_of_the_serving_package(sound):
    assert keras_bert.tf_serving.check(sound).is_clean()
    with pytest.raises(AttributeError, match="no attribute 'chekc'"):
        keras_bert.tf_serving.chekc  # noqa: B018


def test_functions_that_servers_never_call_may_have_any_operation(copied):
    # TensorFlow's C++ loader loads such a model, but refuses one in which a signature calls the function.
    def add_function(graph):
        function = graph.graph_def.library.function.add()
        function.signature.name = "only_for_python"
        function.node_def.add(name="node", op="MyOwnOperation")

    edit_graph(copied, add_function)
    assert found(check(copied)) == [("warning", "stale-fingerprint")]


def test_a_signature_that_names_a_tensor_that_is_not_there_is_an_error(copied):
    def break_name(graph):
        graph.signature_def["serving_default"].outputs["score"].name = "Nowhere:0"

    edit_graph(copied, break_name)
    assert ("error", "dangling-name") in found(check(copied))


def test_a_graph_without_the_tag_of_servers_is_an_error(copied):
    edit_graph(copied, lambda graph: graph.meta_info_def.tags.__setitem__(0, "train"))
    report = check(copied)
    assert found(report) == [("error", "no-serve-tag")]
    assert "train" in report.errors[0].happens


def test_a_graph_of_more_than_two_gigabytes_is_an_error(copied):
    os.truncate(copied / "saved_model.pb", 2**31)
    assert found(check(copied)) == [("error", "huge-graph")]


def test_variables_that_keras_stores_twice_are_found(tmp_path):
    model = keras.Sequential([keras.Input((30,), name="x"), keras.layers.Dense(50)])
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serving_default", model.call, [tf.TensorSpec([None, 30], tf.float32, name="x")])
    archive.write_out(tmp_path, verbose=False)
    report = check(tmp_path)
    assert ("warning", "doubled-variables") in found(report)
    [doubled] = [finding for finding in report.warnings if finding.trap == "doubled-variables"]
    assert "6,000 of " in doubled.happens  # 30 * 50 float32; the biases are zeros in every model


def test_equal_zeros_are_not_taken_for_copies(tmp_path):
    weights = [tf.Variable(tf.zeros([8, 8])), tf.Variable(tf.zeros([8, 8])), tf.Variable(tf.ones([8, 8]))]

    @graph(spec(BATCH, tf.string, "text"))
    def score(text):
        return {"y": tf.fill([tf.size(text)], tf.reduce_sum(tf.add_n(weights)))}

    assert found(check(save(tmp_path, {"serving_default": score}, weights=weights))) == []


def test_weights_that_are_constants_are_found(tmp_path):
    table = np.random.default_rng(0).normal(size=(600, 512)).astype(np.float32)

    @graph(spec(BATCH, tf.int32, "number"))
    def look_up(number):
        return {"row": tf.gather(tf.constant(table), number)}

    report = check(save(tmp_path, {"serving_default": look_up}))
    assert found(report) == [("warning", "weights-in-graph")]
    assert "1,228,8" in report.warnings[0].happens


def test_missing_and_cut_off_variables_are_errors(copied):
    data = copied / "variables" / "variables.data-00000-of-00001"
    os.truncate(data, 100)
    assert ("error", "missing-variables") in found(check(copied))
    data.unlink()
    assert ("error", "missing-variables") in found(check(copied))
    os.truncate(copied / "variables" / "variables.index", 60)
    assert ("error", "damaged-variables") in found(check(copied))
    shutil.rmtree(copied / "variables")
    assert ("error", "missing-variables") in found(check(copied))


def test_the_index_of_variables_is_read_as_tensorflow_reads_it(tmp_path):
    shapes = {f"layer_{number}/kernel": (number % 5 + 1, 3) for number in range(400)}
    variables = {name: tf.Variable(tf.random.normal(shape)) for name, shape in shapes.items()}
    prefix = tf.train.Checkpoint(**{name.replace("/", "_"): value for name, value in variables.items()}).write(
        str(tmp_path / "checkpoint")
    )
    num_shards, tensors = read_index(prefix + ".index")
    assert num_shards == 1
    expected = dict(tf.train.list_variables(prefix))
    assert {tensor.name: list(tensor.shape) for tensor in tensors} == expected
    data = (tmp_path / "checkpoint.data-00000-of-00001").read_bytes()
    reader = tf.train.load_checkpoint(prefix)
    for tensor in tensors[1::50]:
        values = np.frombuffer(data[tensor.offset : tensor.offset + tensor.size], np.float32)
        np.testing.assert_array_equal(values.reshape(tensor.shape), reader.get_tensor(tensor.name))


def test_assets_that_are_missing_or_left_over_are_found(copied):
    (copied / "assets" / "old_vocab.txt").write_text("old")
    assert found(check(copied)) == [("warning", "stale-asset")]
    (copied / "assets" / "vocab.txt").unlink()
    assert found(check(copied)) == [("error", "missing-asset"), ("warning", "stale-asset")]


def test_an_asset_outside_the_model_is_an_error(copied):
    edit_graph(copied, lambda graph: setattr(graph.asset_file_def[0], "filename", "/home/me/vocab.txt"))
    assert ("error", "absolute-path") in found(check(copied))


def test_a_fingerprint_of_another_model_or_none_is_found(copied):
    edit_graph(copied, lambda graph: setattr(graph.signature_def["serving_default"], "method_name", "other"))
    [finding] = check(copied).findings
    assert finding.trap == "stale-fingerprint"
    assert "the signatures changed" in finding.happens
    (copied / "fingerprint.pb").write_bytes(b"\xff\xff")
    assert found(check(copied)) == [("warning", "stale-fingerprint")]
    (copied / "fingerprint.pb").unlink()
    assert found(check(copied)) == [("note", "no-fingerprint")]


def predict_log(signature="", **inputs):
    log = messages.PredictionLog()
    log.predict_log.request.model_spec.signature_name = signature
    for name, value in inputs.items():
        log.predict_log.request.inputs[name].CopyFrom(array_to_tensor_proto(np.asarray(value)))
    return log.SerializeToString()


def warm_up_problem(folder, records):
    path = folder / "assets.extra" / "tf_serving_warmup_requests"
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return [finding for finding in check(folder).findings if finding.trap == "warm-up"]


def test_warm_up_requests_that_would_fail_are_errors(copied):
    good = predict_log(text=[b"a"])
    assert warm_up_problem(copied, [good, predict_log("serving_default", text=[b"a", b"b"])]) == []
    classify = messages.PredictionLog()
    classify.classify_log.request.model_spec.signature_name = "serving_default"
    for record, reason in [
        (b"\xff\xffno message", "It is not a PredictionLog"),
        (messages.PredictionLog().SerializeToString(), "Unimplemented"),
        (predict_log("other", text=[b"a"]), "is for the signature other, which does not exist"),
        (predict_log(words=[b"a"]), "sends words to signature serving_default, which takes text"),
        (predict_log(text=[1]), "with another type"),
        (classify.SerializeToString(), "Classify needs the input 'inputs'"),
    ]:
        [finding] = warm_up_problem(copied, [good, record])
        assert finding.severity == "error"
        assert finding.where.endswith("record 2")
        assert reason in finding.happens


def test_warm_up_files_that_are_too_long_empty_damaged_or_misplaced_are_found(copied):
    [finding] = warm_up_problem(copied, [predict_log(text=[b"a"])] * 1001)
    assert "1,001 records" in finding.happens
    [finding] = warm_up_problem(copied, [])
    assert finding.severity == "warning"
    path = copied / "assets.extra" / "tf_serving_warmup_requests"
    path.write_bytes(b"no records at all, but more than twelve bytes")
    assert found(check(copied)) == [("error", "warm-up")]
    shutil.move(path, copied / "tf_serving_warmup_requests")
    assert found(check(copied)) == [("warning", "warm-up")]


def test_folders_that_are_no_versions_or_half_written_are_found(copied):
    model = copied.parent
    shutil.copytree(copied, model / "v2")
    shutil.copytree(copied, model / "001")
    (model / ".3.partial-ab12cd34").mkdir()
    (model / "0").mkdir()
    (model / "99999999999999999999").mkdir()
    report = check(model)
    assert found(report) == [
        ("warning", "version-name"),
        ("warning", "version-name"),
        ("warning", "same-version"),
        ("warning", "half-written-version"),
        ("note", "unfinished-version"),
    ]
    assert report.path in (str(copied), str(model / "001"))
    (model / "7").mkdir()
    report = check(model)
    assert ("error", "half-written-version") in found(report)
    assert report.path == str(model)


def test_a_folder_whose_only_version_has_no_number_is_an_error(copied):
    copied.rename(copied.parent / "version-1")
    assert found(check(copied.parent)) == [("error", "no-version"), ("warning", "version-name")]


@pytest.mark.parametrize("versions", [["2.9"], ["latest"], []])
def test_versions_of_servers_that_are_not_known_are_refused(sound, versions):
    with pytest.raises(InputError, match="2.10 to 2.21"):
        check(sound, versions)


def test_what_is_no_saved_model_is_refused(copied, tmp_path):
    (tmp_path / "empty").mkdir()
    (copied / "saved_model.pb").write_bytes(b"\xff\xff\xff no graph")
    for path, reason in [
        (tmp_path / "nowhere", "no such folder"),
        (copied / "saved_model.pb", "is a file"),
        (tmp_path / "empty", "neither saved_model.pb nor a folder of a version"),
        (copied, "is damaged"),
    ]:
        with pytest.raises(InputError, match=reason):
            check(path)


def test_lists_of_operations_agree_with_tensorflow():
    from tensorflow.python.framework import op_def_registry

    for name in NEWER_THAN_2_12 | NEWER_THAN_2_20:
        assert op_def_registry.get(name) is not None, name
    import tensorflow_text  # noqa: F401 registers its operations

    for name in TEXT_SINCE:
        assert op_def_registry.get(name) is not None, name


def test_the_command_prints_the_report_and_exits_with_what_it_means(sound, copied, tmp_path, monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["check_saved_model", *map(str, arguments)])
        others, code = set(flags.FLAGS), 0
        try:
            check_saved_model.command()
        except SystemExit as exit:
            code = exit.code
        for name in set(flags.FLAGS) - others:
            delattr(flags.FLAGS, name)
        return code, capsys.readouterr()

    assert run(sound)[0] == 0
    (copied / "assets" / "old.txt").write_text("old")
    code, shown = run(copied)
    assert (code, "stale-asset" in shown.out) == (0, True)
    assert run(copied, "--strict")[0] == 1
    (copied / "assets" / "vocab.txt").unlink()
    code, shown = run(copied, "--json")
    assert code == 1
    assert [finding["trap"] for finding in json.loads(shown.out)["findings"]] == ["missing-asset", "stale-asset"]
    code, shown = run(tmp_path / "nowhere")
    assert (code, shown.err.count("\n")) == (2, 1)
    assert run(sound, "--serving_versions=9.9")[0] == 2
    assert run()[0] == 2
    classify = messages.PredictionLog()
    for text in ("a", "b", "c"):
        features = classify.classify_log.request.input.example_list.examples.add().features
        features.feature["text"].bytes_list.value.append(text.encode())
    for log, rows in ((predict_log(text=[b"a", b"b"]), 2), (classify.SerializeToString(), 3)):
        warm_up_problem(copied, [log])
        (tmp_path / "batching.config").write_text("max_batch_size { value: 1 }")
        code, shown = run(copied, "--json", f"--batching_file={tmp_path}/batching.config")
        [warm_up, request] = [one for one in json.loads(shown.out)["findings"] if one["trap"].startswith("batching-")]
        assert (code, warm_up["severity"], request["severity"]) == (1, "error", "warning")
        assert f"a warm-up request has {rows}. Servers set up" in warm_up["happens"]
        assert request["trap"] == "batching-request"
    assert run(sound, f"--batching_file={tmp_path}/none")[0] == 2


def edit_graph(folder, edit):
    from tensorflow.core.protobuf import saved_model_pb2

    path = folder / "saved_model.pb"
    saved_model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    edit(saved_model.meta_graphs[0])
    path.write_bytes(saved_model.SerializeToString())


def rename_operation(graph, old, new):
    for function in graph.graph_def.library.function:
        for node in function.node_def:
            node.op = new if node.op == old else node.op
