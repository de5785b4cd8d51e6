"""The check of SavedModels: every problem is found in a SavedModel that has it, and a sound one has no findings."""

import functools
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from trapped_models import BATCH, ROWS, graph, save, sound_signature, spec, trapped_signatures

import keras_bert.serving
from keras_bert.program.errors import InputError
from keras_bert.program.variables_index import read_index
from keras_bert.tf_serving.saved_model_check.checking import check, require_servable
from keras_bert.tf_serving.saved_model_check.served_operations import NEWER_THAN_2_12, NEWER_THAN_2_20, TEXT_SINCE
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.tensors import array_to_tensor_proto
from run_scripts import check_saved_model


def found(report):
    return [(finding.severity, finding.trap) for finding in report.findings]


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
            if f"signature {trap}," in f"{finding.where},"
        ]
        assert of_signature == [(severity, trap)], trap
    assert not report.is_clean()


def test_findings_say_where_what_happens_and_what_to_do_with_errors_first(trapped):
    _, report = trapped
    severities = [finding.severity for finding in report.findings]
    assert severities == sorted(severities, key=["error", "warning"].index)
    [ragged] = [finding for finding in report.findings if finding.trap == "composite-output"]
    assert str(ragged).startswith("error: composite-output, signature composite-output, output 'words'\n")
    assert "was not found in the Graph" in ragged.happens
    assert "to_tensor()" in ragged.remedy
    assert "for TensorFlow Serving 2.12 to 2.21; needs of TensorFlow Text: " in str(report).splitlines()[-1]


def test_operations_are_missing_in_some_servers_only(trapped):
    _, report = trapped
    [missing] = [finding for finding in report.findings if finding.trap == "missing-operation"]
    assert missing.where.startswith("operation TFText>RoundRobinTrim, ")
    assert "2.12 to 2.19 does not include it" in missing.happens
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


def test_an_operation_that_is_newer_than_a_server_is_missing_there_or_may_be(tmp_path):
    @graph(spec(BATCH, tf.int32, "x"))
    def newer(x):
        rows = tf.range(tf.size(x))
        largest = tf.raw_ops.SegmentMaxV2(data=x, segment_ids=rows, num_segments=tf.size(x))
        return {"y": tf.ensure_shape(largest, BATCH)}

    folder = save(tmp_path, {"serving_default": newer})
    assert found(check(folder, ["2.12"])) == [("error", "missing-operation")]
    assert found(check(folder, ["2.19"])) == [("warning", "newer-operation")]
    assert found(check(folder, ["2.20", "2.21"])) == []


def test_a_model_without_signatures_is_an_error(tmp_path):
    module = tf.Module()
    module.weights = tf.Variable([1.0, 2.0])
    tf.saved_model.save(module, tmp_path)
    assert found(check(tmp_path)) == [("error", "no-signature")]


def test_an_operation_that_nobody_links_is_an_error(copied):
    edit_graph(copied, lambda graph: rename_operation(graph, "StringLength", "MyOwnOperation"))
    [finding] = check(copied).findings
    assert finding.trap == "custom-operation"
    assert "MyOwnOperation, in signature serving_default" in finding.where


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
    assert found(check(copied)) == []


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


def test_an_asset_that_is_missing_is_an_error(copied):
    (copied / "assets" / "vocab.txt").unlink()
    assert found(check(copied)) == [("error", "missing-asset")]


def test_an_asset_outside_the_model_is_an_error(copied):
    edit_graph(copied, lambda graph: setattr(graph.asset_file_def[0], "filename", "/home/me/vocab.txt"))
    assert ("error", "absolute-path") in found(check(copied))


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


def test_warm_up_files_that_are_too_long_or_damaged_are_errors(copied):
    [finding] = warm_up_problem(copied, [predict_log(text=[b"a"])] * 1001)
    assert "1,001 records" in finding.happens
    assert warm_up_problem(copied, []) == []
    path = copied / "assets.extra" / "tf_serving_warmup_requests"
    path.write_bytes(b"no records at all, but more than twelve bytes")
    assert found(check(copied)) == [("error", "warm-up")]


def test_the_highest_version_is_checked_and_must_not_be_half_written(copied):
    model = copied.parent
    shutil.copytree(copied, model / "v2")
    for name in (".3.partial-ab12cd34", "0", "99999999999999999999"):
        (model / name).mkdir()
    report = check(model)
    assert (found(report), report.path) == ([], str(copied))
    (model / "7").mkdir()
    report = check(model)
    assert (found(report), report.path) == ([("error", "half-written-version")], str(model))


def test_a_folder_whose_only_version_has_no_number_is_an_error(copied):
    copied.rename(copied.parent / "version-1")
    assert found(check(copied.parent)) == [("error", "no-version")]


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


def test_the_command_prints_the_report_and_exits_with_what_it_means(sound, copied, tmp_path, run_here):
    run = functools.partial(run_here, check_saved_model)
    assert run(sound)[0] == 0

    @graph(spec(ROWS, tf.int32, "input_ids"))
    def ids(input_ids):
        return {"y": tf.reduce_sum(input_ids, axis=1)}

    padded = save(tmp_path / "padded", {"serving_default": ids})
    code, shown = run(padded)
    assert (code, "padded-ids" in shown.out) == (0, True)
    assert run(padded, "--strict")[0] == 1
    (tmp_path / "batching.config").write_text("pad_variable_length_inputs: true")
    code, shown = run(padded, f"--batching_file={tmp_path}/batching.config")
    assert code == 1
    assert "error: batching-padding, batching file, signature serving_default, input 'input_ids'" in shown.out
    (copied / "assets" / "vocab.txt").unlink()
    code, shown = run(copied, "--json")
    assert code == 1
    assert [finding["trap"] for finding in json.loads(shown.out)["findings"]] == ["missing-asset"]
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
