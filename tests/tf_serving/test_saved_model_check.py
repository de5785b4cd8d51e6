"""The check of SavedModels: every problem is found in a SavedModel that has it, and a sound one has no findings."""

import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from trapped_models import save, sound_signature, trapped_signatures

import keras_bert.serving
from keras_bert.program.errors import InputError
from keras_bert.tf_serving.saved_model_check.checking import check, require_servable
from keras_bert.tf_serving.saved_model_check.served_operations import NEWER_THAN_2_12, NEWER_THAN_2_20, TEXT_SINCE
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
    """A SavedModel without a trap. Tests change copies of it."""
    weights = tf.Variable(np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32))
    return save(tmp_path_factory.mktemp("sound") / "1", {"serving_default": sound_signature(weights)}, weights=weights)


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
        of_signature = [one for one in report.findings if f"signature {trap}," in f"{one.where},"]
        assert [(one.severity, one.trap) for one in of_signature] == [(severity, trap)]
    assert not report.is_clean()


def test_findings_say_where_what_happens_and_what_to_do_with_errors_first(trapped):
    _, report = trapped
    severities = [finding.severity for finding in report.findings]
    assert severities == sorted(severities, key=["error", "warning"].index)
    [mask] = [finding for finding in report.findings if finding.trap == "padded-mask"]
    assert str(mask).startswith("warning: padded-mask, signature padded-mask, input 'input_ids', 'input_mask'\n")
    assert "answers are wrong" in mask.happens
    assert "lengths" in mask.remedy
    assert "2 error(s), 2 warning(s), for TensorFlow Serving 2.12, 2.13" in str(report)
    assert str(report).endswith("; needs of TensorFlow Text: TFText>RoundRobinTrim")


@pytest.mark.parametrize(
    ("operation", "versions", "expected"),
    [
        ("TFText>RoundRobinTrim", ["2.20", "2.21"], []),
        ("TFText>RoundRobinTrim", ["2.19"], [("error", "missing-operation")]),
        ("TFText>RoundRobinTrim", ["2.20", "2.12"], [("error", "missing-operation")]),
        ("SegmentMaxV2", ["2.12"], [("error", "missing-operation")]),
        ("SegmentMaxV2", ["2.19"], [("warning", "newer-operation")]),
        ("SegmentMaxV2", ["2.20", "2.21"], []),
        ("MyOwnOperation", ["2.12", "2.21"], [("error", "custom-operation")]),
    ],
)
def test_an_operation_that_servers_lack_is_found(copied, operation, versions, expected):
    edit_graph(copied, lambda graph: rename_operation(graph, "StringLength", operation))
    report = check(copied, versions)
    assert found(report) == expected
    assert all(finding.where.startswith(f"operation {operation}, in signature") for finding in report.findings)


def test_a_remedy_names_a_server_that_has_the_operation(trapped):
    [missing] = [finding for finding in trapped[1].findings if finding.trap == "missing-operation"]
    assert missing.where.startswith("operation TFText>RoundRobinTrim, ")
    assert "2.12 to 2.19 " in missing.happens
    assert "serve with TensorFlow Serving 2.21" in missing.remedy


def test_an_export_that_cannot_be_served_is_refused_with_its_errors(sound, trapped):
    require_servable(sound)
    with pytest.raises(InputError, match=r"cannot serve .*\. python-operation, operation .*, in signature python-oper"):
        require_servable(trapped[1].path, ["2.21"])


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


def without_tag(folder):
    edit_graph(folder, lambda graph: graph.meta_info_def.tags.__setitem__(0, "train"))


@pytest.mark.parametrize(
    ("edit", "versions", "reason"),
    [
        (lambda folder: shutil.rmtree(folder.parent), None, "no such folder"),
        (lambda folder: shutil.rmtree(folder), None, "neither saved_model.pb nor a folder of a version"),
        (lambda folder: (folder / "saved_model.pb").write_bytes(b"\xff\xff no graph"), None, "is damaged"),
        (lambda folder: os.truncate(folder / "saved_model.pb", 2**31), None, "larger than 2 GB"),
        (lambda folder: (shutil.rmtree(folder.parent), folder.parent.touch()), None, "is a file"),
        (without_tag, None, 'no graph with the tag "serve"'),
        (check, ["2.9"], "2.10 to 2.21. Received: '2.9'"),
        (check, ["latest"], "2.10 to 2.21. Received: 'latest'"),
        (check, [], "2.10 to 2.21. Received: none"),
    ],
)
def test_what_is_no_saved_model_for_known_servers_is_refused(copied, edit, versions, reason):
    edit(copied)
    with pytest.raises(InputError, match=reason):
        check(copied.parent, *([] if versions is None else [versions]))


def test_lists_of_operations_agree_with_tensorflow():
    import tensorflow_text  # noqa: F401 registers its operations
    from tensorflow.python.framework import op_def_registry

    for name in (*NEWER_THAN_2_12, *NEWER_THAN_2_20, *TEXT_SINCE):
        assert op_def_registry.get(name) is not None, name


def test_the_command_prints_the_report_and_exits_with_what_it_means(sound, trapped, copied, tmp_path, run_here):
    edit_graph(copied, lambda graph: rename_operation(graph, "StringLength", "SegmentMaxV2"))  # newer than 2.12
    for arguments, expected, shown in [
        ([sound], 0, ""),
        ([trapped[1].path], 1, "error: python-operation, "),
        ([copied, "--serving_versions=2.19"], 0, "warning: newer-operation, operation SegmentMaxV2"),
        ([copied, "--serving_versions=2.19", "--strict"], 1, ""),
        ([copied, "--serving_versions=2.12"], 1, "error: missing-operation, operation SegmentMaxV2"),
        ([tmp_path / "nowhere"], 2, ""),
        ([sound, "--serving_versions=9.9"], 2, ""),
        ([], 2, ""),
    ]:
        code, printed = run_here(check_saved_model, *arguments)
        assert (code, printed.err.count("\n")) == (expected, expected == 2), arguments
        assert shown in printed.out


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
