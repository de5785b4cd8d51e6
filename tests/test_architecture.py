"""The architecture as a test: who may import whom (docs/design.md)."""

import ast
import pathlib
import subprocess
import sys

import pytest

PROJECT = pathlib.Path(__file__).resolve().parent.parent

# Inside keras_bert a module imports only from rows above its own, or from its own family (folder).
ROWS = [
    ["errors", "quiet_tensorflow", "tensorflow_functions", "tensorflow_kernels", "unpadding"],
    ["atomic_output", "backend", "command_line", "folder_lock", "json_files"],
    ["config", "features", "masked_positions", "record_files", "optimization", "trainable_parts"],
    ["example_encoding", "masking", "record_checks", "record_form", "record_index", "record_values", "tokenization"],
    ["dynamic_masking", "record_manifests", "record_order", "tasks"],
    ["evaluation", "layers", "losses", "metrics", "input_pipeline", "distributed_model", "text_vectors"],
    ["models", "summarization", "vector_index", "word_senses"],
    ["checkpoints"],
    ["text_tasks", "vector_files", "word_sense_files"],
    ["training"],
    ["serving"],
]
ROW = {name: number for number, row in enumerate(ROWS) for name in row}
# The offline tools know the records, the text and nothing of the models.
DATA_PREP_MAY_IMPORT = {
    *("config", "features", "record_files", "example_encoding", "masked_positions", "masking", "tokenization", "tasks"),
    *("record_manifests", "record_values"),
    *("errors", "atomic_output", "command_line", "folder_lock", "json_files", "quiet_tensorflow"),
}
# Conveniences of models that belong to lower rows; imported when they are called.
AT_CALL_TIME = {
    ("keras_bert.models.base", "keras_bert.checkpoints.pretrained"),
    ("keras_bert.models.base", "keras_bert.serving.export"),
    ("keras_bert.models.masked_lm", "keras_bert.text_tasks.masked_lm"),
    ("keras_bert.models.base", "keras_bert.text_tasks.fitting"),
}
# These run on every Keras backend.
CORE = ["backend", "config", "layers", "losses", "metrics", "models", "optimization", "trainable_parts"]


def source_files(package: str):
    return sorted((PROJECT / package).rglob("*.py"))


def files_of(family: str):
    return source_files(f"keras_bert/{family}") or [PROJECT / "keras_bert" / f"{family}.py"]


def module_name(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(path: pathlib.Path) -> list[str]:
    """Every module that a file imports, at import or at call time, with `from package import module` spelt out."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute in this project"
            for alias in node.names:
                candidate = PROJECT.joinpath(*node.module.split("."), alias.name)
                is_module = candidate.with_suffix(".py").exists() or candidate.is_dir()
                found.append(f"{node.module}.{alias.name}" if is_module else node.module)
    return found


def test_keras_bert_modules_import_only_from_rows_above():
    wrong = []
    for path in source_files("keras_bert"):
        module = module_name(path)
        if module == "keras_bert":
            continue  # its imports are lazy, by name
        family = module.split(".")[1]
        for imported in imports_of(path):
            if imported.split(".")[0] != "keras_bert" or imported == "keras_bert":
                continue
            other = imported.split(".")[1]
            allowed = other == family or ROW[other] < ROW[family] or (module, imported) in AT_CALL_TIME
            if not allowed:
                wrong.append(f"{module} imports {imported}: move what both need to a row above {family!r}")
    assert not wrong, "\n".join(wrong)


def test_every_family_has_a_row():
    modules = {module_name(path) for path in source_files("keras_bert")} - {"keras_bert"}
    families = {module.split(".")[1] for module in modules}
    assert families <= set(ROW), "add the new family to ROWS here and in docs/design.md"


def test_the_library_does_not_import_the_tools_around_it():
    for path in source_files("keras_bert"):
        outside = [name for name in imports_of(path) if name.split(".")[0] in ("data_prep", "run_scripts", "tests")]
        assert not outside, f"{path.name} imports {outside}: keras_bert stands alone"


def test_data_prep_knows_records_and_text_only():
    for path in source_files("data_prep"):
        for imported in imports_of(path):
            package, *rest = imported.split(".")
            assert package != "run_scripts", f"{path.name} imports {imported}"
            if package == "keras_bert" and rest:
                assert rest[0] in DATA_PREP_MAY_IMPORT, f"{path.name} imports {imported}: data_prep has no model code"


@pytest.mark.parametrize("family", CORE)
def test_the_core_does_not_import_tensorflow(family):
    for path in files_of(family):
        heavy = [name for name in imports_of(path) if name.split(".")[0] in ("tensorflow", "tensorflow_text")]
        assert not heavy, f"{path.name} imports {heavy}: the core uses keras and keras.ops only"


def test_the_core_asks_in_one_place_whether_keras_runs_on_tensorflow():
    for path in (path for family in CORE if family != "backend" for path in files_of(family)):
        imported = {"keras_bert.tensorflow_functions", "keras_bert.tensorflow_kernels"} & set(imports_of(path))
        assert not imported, f"{path.name} imports {imported}: take them from keras_bert.backend"


def test_importing_keras_bert_is_light():
    program = "import sys, keras_bert; print([m for m in ('tensorflow', 'keras', 'numpy') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_public_name_can_be_imported():
    import keras_bert

    for name in keras_bert.__all__:
        assert getattr(keras_bert, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Bert'"):
        keras_bert.Bert  # noqa: B018
