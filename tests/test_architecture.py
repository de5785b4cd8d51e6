"""The architecture as a test: who may import whom, and what each file of a task needs (docs/design.md)."""

import ast
import functools
import io
import pathlib
import re
import subprocess
import sys
import tokenize
from collections.abc import Sequence

import pytest

PROJECT = pathlib.Path(__file__).resolve().parent.parent

# A place is a folder or a module of keras_bert, or `serving/graph`. It imports only from the rows above its own.
ROWS = [
    ["program", "registry"],
    ["accelerate", "config", "tf_serving", "tokenization"],
    ["layers", "optimization", "records"],
    ["models", "serving/graph"],
    ["checkpoints"],
    ["encoders"],
    ["tasks"],
    ["embeddings", "training"],
    ["serving"],
]
ROW = {place: number for number, row in enumerate(ROWS) for place in row}
MOST_PLACES = 18
MOST_DEPENDENCIES = 90
MOST_FILES_IN_A_CIRCLE = 4
# What these files name is imported when somebody asks for it: their edges do not count.
LOOKED_UP_IN = ("keras_bert", "keras_bert.registry")
# Methods that need a lower row import it when they are called: module -> what it imports.
UPWARD = {
    "keras_bert.models.base": {
        "keras_bert.checkpoints.keras_weights_file",
        "keras_bert.checkpoints.pretrained",
        "keras_bert.serving.export",
    },
    "keras_bert.tasks.embedding.encoding": {"keras_bert.embeddings.text_vectors"},
    "keras_bert.training.finished_runs": {"keras_bert.serving.portable.loading"},
}
MOST_UPWARD = 12
# The same inside data_prep: its commands import from every folder.
DATA_PREP_ROWS = [["text"], ["tokenized", "vocabulary"], ["finetuning", "inspection", "pretraining"]]
DATA_PREP_ROW = {place: number for number, row in enumerate(DATA_PREP_ROWS) for place in row}
# data_prep knows text, records and the examples of tasks; no model code.
DATA_PREP_MAY_IMPORT = ("program", "registry", "tokenization", "records", "tasks")
# data_prep imports these files of keras_bert/tasks: they import neither models nor TensorFlow.
LIGHT_FILES = ("examples", "rows", "scores", "tag_schemes", "answer_spans", "label_names")
LIGHT_FILES += ("text_rows", "answers", "masked_texts", "served_values", "answer_operations", "annotated_spans")
LIGHT_FILES += ("decoding",)
HEAVY_PLACES = ("accelerate", "layers", "optimization", "models", "checkpoints")
# These run on every Keras backend.
CORE = ("config", "encoders", "layers", "models", "optimization")
MODELS_OF_TASKS = ("model", "losses", "sentence_classifier", "pretrainer", "span_pretrainer", "electra_pretrainer")
MODELS_OF_TASKS += ("replaced_token_detector", "beam_search", "text_model")
# Keras on TensorFlow only; imported when a model is made or trained there.
TENSORFLOW_ONLY = (
    "keras_bert/models/distributed_model.py",
    "keras_bert/models/whole_batch_step.py",
    "keras_bert/encoders/stream_memory.py",
)


# How a family is written in code. Outside of its own place, the registry and the public names, few files name it.
FAMILY_WORDS = {
    "roberta": "roberta",
    "xlm-roberta": "xlm_?roberta",
    "camembert": "camembert",
    "mpnet": "mp_?net",
    "deberta-v2": "deberta(_v2)?",
    "albert": "albert",
    "distilbert": "distil_?bert",
    "electra": "electra",
    "longformer": "longformer",
    "big_bird": "big_?bird",
    "mobilebert": "mobile_?bert",
    "modernbert": "modern_?bert",
    "nomic_bert": "nomic_?bert",
    "gte": "(?<!si)gte(?!rm)",
    "new": "new-impl",  # the word alone is an ordinary one
    "jina_embeddings_v3": "jina(_embeddings)?_v3",
    "eurobert": "euro_?bert",
    "gemma3_text": "gemma3_text",
    "neobert": "neo_?bert",
    "xlnet": "xl_?net",
    "transfo-xl": "transfo(rmer)?[-_]?xl",
}
# The same for tasks, by folder. The models of BERT's own pre-training are excepted.
TASK_WORDS = {
    "classification": "SequenceClassifier|SentenceClassifier",
    "embedding": "SentenceEncoder|sentence_encoder",
    "masked_lm": "MaskedLM",
    "multi_vector": "MultiVectorEncoder|multi_vector_encoder",
    "multiple_choice": "MultipleChoice|multiple_choice|choice_scorer",
    "pretraining": "SpanPretrainer|ElectraPretrainer|ReplacedTokenDetector",
    "question_answering": "SpanClassifier|span_classifier|QuestionAnswering|question_answering",
    "ranking": "CrossEncoder|cross_encoder",
    "sparse": "SparseEncoder|sparse_encoder",
    "tagging": "TokenClassifier|token_classifier|tagging",
    "text_to_text": "TextToText|text_to_text",
}
MOST_OTHER_FILES = 3


def source_files(package: str):
    return sorted((PROJECT / package).rglob("*.py"))


def files_of(place: str):
    return source_files(f"keras_bert/{place}") or [PROJECT / "keras_bert" / f"{place}.py"]


def core_files() -> list[pathlib.Path]:
    of_tasks = [path for path in source_files("keras_bert/tasks") if path.stem in MODELS_OF_TASKS]
    return [path for place in CORE for path in files_of(place)] + of_tasks


def module_name(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def imports_of(path: pathlib.Path, at_the_top: bool = False) -> list[str]:
    """Every module that a file imports, with `from package import module` spelt out: at any level, or at its top."""
    found = []
    tree = ast.parse(path.read_text("utf-8"))
    for node in tree.body if at_the_top else ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute in this project"
            found += [module_of(f"{node.module}.{alias.name}") or node.module for alias in node.names]
        elif isinstance(node, ast.Constant) and re.fullmatch(r"keras_bert(\.\w+)+", str(node.value)):
            found.append(module_of(node.value) or "keras_bert")  # an import path in a string
    return found


@functools.cache
def module_of(path: str) -> str | None:
    """The module that an import path names, or None: `keras_bert.config.BertConfig` -> `keras_bert.config`."""
    parts = path.split(".")
    names = (parts[:count] for count in range(len(parts), 1, -1))
    is_file = lambda place: place.with_suffix(".py").exists() or place.is_dir()  # noqa: E731
    return next((".".join(name) for name in names if is_file(PROJECT.joinpath(*name))), None)


def place_of(module: str) -> str:
    """`keras_bert.serving.graph.words` -> `serving/graph`; `keras_bert.serving.export` -> `serving`."""
    _, place, *rest = module.split(".")
    return f"{place}/{rest[0]}" if rest and f"{place}/{rest[0]}" in ROW else place


@functools.cache
def imports_in_the_package() -> dict[str, set[str]]:
    """Module of keras_bert -> the modules of keras_bert that it imports, at any level; `UPWARD` is left out."""
    found = {}
    for path in source_files("keras_bert"):
        if (module := module_name(path)) not in LOOKED_UP_IN:
            names = {name for name in imports_of(path) if name.startswith("keras_bert.")}
            found[module] = names - UPWARD.get(module, set())
    return found


def dependencies() -> dict[tuple[str, str], list[tuple[str, str]]]:
    """(place, other place) -> the imports that make up this dependency, as (module, imported module)."""
    found = {}
    for module, imports in imports_in_the_package().items():
        for imported in sorted(imports):
            if place_of(module) != place_of(imported):
                found.setdefault((place_of(module), place_of(imported)), []).append((module, imported))
    return found


def test_a_place_imports_only_from_rows_above():
    wrong = [
        f"{module} imports {imported}: move what both need to a row above {place!r}"
        for (place, other), imports in dependencies().items()
        for module, imported in imports
        if ROW[other] >= ROW[place]
    ]
    assert not wrong, "\n".join(wrong)


def test_the_few_imports_from_lower_rows_are_made_when_a_method_is_called():
    assert sum(map(len, UPWARD.values())) <= MOST_UPWARD
    for module, names in UPWARD.items():
        path = PROJECT.joinpath(*module.split(".")).with_suffix(".py")
        assert names <= set(imports_of(path)), f"{module} no longer imports all of {names}: take it off the list"
        assert not names & set(imports_of(path, at_the_top=True)), f"{module} imports a lower row at its top"
        assert all(ROW[place_of(name)] > ROW[place_of(module)] for name in names)


def test_arguments_are_passed_by_name():
    paths = [path for package in ("keras_bert", "data_prep", "run_scripts") for path in source_files(package)]
    assert [path for path in paths if "locals()" in path.read_text("utf-8")] == []


def test_every_place_has_a_row_and_there_are_few():
    modules = {module_name(path) for path in source_files("keras_bert")} - {"keras_bert"}
    places = {place_of(module) for module in modules}
    assert places == set(ROW), "ROWS here and in docs/design.md lists the places of keras_bert"
    assert len(places) <= MOST_PLACES
    assert len(dependencies()) <= MOST_DEPENDENCIES


def test_no_circle_of_imports_has_many_files():
    for circle in circles(imports_in_the_package()):
        assert len(circle) <= MOST_FILES_IN_A_CIRCLE, f"these files import each other: {', '.join(sorted(circle))}"


def circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that reach each other: {"a": {"b"}, "b": {"a"}, "c": {"a"}} -> [{"a", "b"}]."""
    reached = {module: {*others} & imports.keys() for module, others in imports.items()}
    for module in imports:  # Warshall's algorithm
        for others in reached.values():
            if module in others:
                others |= reached[module]
    found = {frozenset(other for other in reached[module] if module in reached[other]) for module in imports}
    return [set(circle) for circle in found if circle]


def test_the_design_page_shows_these_rows():
    shown = re.findall(r"^ +\d  ([a-z_/ ]+)$", (PROJECT / "docs" / "design.md").read_text("utf-8"), re.M)
    assert [row.split() for row in shown] == ROWS


def assert_is_light(path, imported, places):
    """Checks an import of keras_bert by a file that may import these places, and of tasks the light files only."""
    _, place, *rest = imported.split(".")
    assert place in places, f"{path} imports {imported}: data_prep has no model code"
    assert place != "tasks" or rest[-1] in LIGHT_FILES, f"{path} imports {imported}, which may import TensorFlow"


@pytest.mark.parametrize("name", LIGHT_FILES)
def test_the_files_of_a_task_that_data_prep_reads_are_light(name):
    paths = sorted((PROJECT / "keras_bert" / "tasks").rglob(f"{name}.py"))
    assert paths, f"no file of keras_bert/tasks is named {name}.py any more"
    for path in paths:
        for imported in imports_of(path):
            package = imported.split(".")[0]
            assert package not in ("keras", "tensorflow", "tensorflow_text"), f"{path} imports {imported}"
            if imported.startswith("keras_bert."):
                assert_is_light(path, imported, set(ROW) - set(HEAVY_PLACES))


def test_the_library_does_not_import_the_tools_around_it():
    for path in source_files("keras_bert"):
        outside = [name for name in imports_of(path) if name.split(".")[0] in ("data_prep", "run_scripts", "tests")]
        assert not outside, f"{path.name} imports {outside}: keras_bert stands alone"


def test_data_prep_knows_text_records_and_examples_only():
    for path in source_files("data_prep"):
        for imported in imports_of(path):
            assert imported.split(".")[0] != "run_scripts", f"{path.name} imports {imported}"
            if imported.startswith("keras_bert."):
                assert_is_light(path, imported, DATA_PREP_MAY_IMPORT)


def test_a_folder_of_data_prep_imports_only_from_rows_above():
    folders = {path.parent.name for path in (PROJECT / "data_prep").glob("*/*.py")}
    assert folders == set(DATA_PREP_ROW)
    for path in (path for folder in folders for path in source_files(f"data_prep/{folder}")):
        for imported in imports_of(path):
            package, *rest = imported.split(".")
            if package == "data_prep" and rest[0] != path.parent.name:
                assert rest[0] in DATA_PREP_ROW, f"{path} imports the command {imported}"
                assert DATA_PREP_ROW[rest[0]] < DATA_PREP_ROW[path.parent.name], f"{path} imports {imported}"


def test_the_core_imports_neither_tensorflow_nor_what_only_tensorflow_has():
    kernels = {f"keras_bert.accelerate.{name}" for name in ("tensorflow_functions", "kernels", "updates")}
    for path in core_files():
        if str(path.relative_to(PROJECT)) not in TENSORFLOW_ONLY:
            imports = imports_of(path)
            heavy = [name for name in imports if name.split(".")[0] in ("tensorflow", "tensorflow_text")]
            assert not heavy, f"{path.name} imports {heavy}: the core uses keras and keras.ops only"
            imported = kernels & set(imports)
            assert not imported, f"{path.name} imports {imported}: take them from accelerate.backend"


@pytest.mark.parametrize(("place", "others"), [("accelerate", {"program"}), ("tf_serving", {"program", "registry"})])
def test_accelerated_forms_and_the_serving_tools_depend_on_little(place, others):
    assert {other for one, other in dependencies() if one == place} == others


@functools.cache
def words_in_code(path: pathlib.Path) -> list[str]:
    """The identifiers of a file, and its strings that are no docstrings."""
    text = path.read_text("utf-8")
    with_docstring = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, with_docstring) and ast.get_docstring(node)]
    docstrings = {node.body[0].lineno for node in nodes}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kinds = (tokenize.NAME, tokenize.STRING)
    return [token.string for token in tokens if token.type in kinds and token.start[0] not in docstrings]


def test_a_family_is_named_in_its_place_and_few_other_files():
    from keras_bert import registry

    assert {"bert", "static", *FAMILY_WORDS} == set(registry.FAMILIES)
    own = [PROJECT / "keras_bert" / "encoders", PROJECT / "keras_bert/registry.py", PROJECT / "keras_bert/__init__.py"]
    for family, pattern in FAMILY_WORDS.items():
        places = named_in(pattern, own)
        assert len(places) <= MOST_OTHER_FILES, f"{family} is named in {', '.join(map(str, sorted(places)))}"


def named_in(pattern: str, own: Sequence[pathlib.Path]) -> set[pathlib.Path]:
    """The places outside of `own` with an identifier that has the name, or with a string that is the name."""
    sign = re.compile(rf"\w*({pattern})\w*|(['\"])({pattern})\2", re.I)
    files = [path for path in source_files("keras_bert") if not any(place in (path, *path.parents) for place in own)]
    named = {path.relative_to(PROJECT) for path in files if any(map(sign.fullmatch, words_in_code(path)))}
    # Tokenizers have the names of the families that had them first, and a task may build on another one: a folder is
    # one place there.
    return {path.parent if path.parts[1] in ("tasks", "tokenization") else path for path in named}


def test_a_task_is_named_in_its_folder_and_few_other_files():
    folders = {path.parent.name for path in (PROJECT / "keras_bert" / "tasks").glob("*/entry.py")}
    assert set(TASK_WORDS) == folders
    others = [PROJECT / "keras_bert" / name for name in ("registry.py", "__init__.py")]
    # An entry of a family says where a head differs from that of other families.
    others.append(PROJECT / "keras_bert" / "encoders")
    for task, pattern in TASK_WORDS.items():
        own = [PROJECT / "keras_bert" / "tasks" / task, *others]
        named = named_in(pattern, own)
        assert len(named) <= MOST_OTHER_FILES, f"{task} is named in {', '.join(map(str, sorted(named)))}"


def test_only_entries_ask_for_the_name_of_a_family():
    asks = re.compile(r"model_type\b[^=\n]*(==|!=| in \()\s*[\"'(]")
    for path in source_files("keras_bert"):
        if "encoders" not in path.parts and "tf_serving" not in path.parts:
            found = [line for line in path.read_text("utf-8").splitlines() if asks.search(line)]
            assert not found, f"{path}: {found[0].strip()}: ask the entry of the family"


# What is imported in one process, one after another, and the packages that it must not load.
LIGHT_IMPORTS = {
    "import keras_bert": ("tensorflow", "keras", "numpy"),
    "import keras_bert.tokenization.wordpiece": ("tensorflow", "keras", "numpy"),
    "from keras_bert import registry; registry.families()": ("tensorflow", "keras", "h5py", "torch"),
    "import keras_bert.records.files": ("tensorflow",),
    "import keras_bert.records.segments": ("tensorflow",),
}


def test_imports_that_start_every_command_are_light():
    lines = [
        f"{load}; print([name for name in {heavy} if name in sys.modules])" for load, heavy in LIGHT_IMPORTS.items()
    ]
    program = "\n".join(["import sys", *lines])
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["[]"] * len(LIGHT_IMPORTS)


def test_every_public_name_can_be_imported():
    import keras_bert

    for name in keras_bert.__all__:
        assert getattr(keras_bert, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Bert'"):
        keras_bert.Bert  # noqa: B018
