"""The names of all tasks and model families, and where their entries are. Data only: an entry is imported when it is
asked for.

A task is one kind of model, such as `TokenClassifier`, a family one kind of encoder, such as ALBERT. Their entries say
what configs, checkpoints, exports and loaded exports must know of them, so these loop over entries and name no task and
no family. `register_task` and `register_family` add them from outside of the package.
"""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_bert.checkpoints.family_formats import Google, HuggingFace, KerasHub, OwnFiles


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting that an export stores, since the answers of the loaded export depend on it.

    Attributes:
        default: its value if the file of the export does not have it.
        is_valid: says whether a stored value is valid. The file may come from a stranger.
    """

    default: Any
    is_valid: Callable[[Any], bool]


@dataclasses.dataclass(frozen=True)
class Export:
    """How the models of a task are exported, and loaded again. Import paths are `module.name`.

    Attributes:
        signatures: import path of the function that makes the signatures of a SavedModel: (model, tokenizer, options)
            -> name -> signature.
        outputs: a model or a loaded export -> name of the output -> its axes, which are numbers or "batch", "length",
            "choices" and "predictions"; other names are axes of any size. The name of an only array is "".
        stored_as: the kind of model that a loaded export behaves as; None for the same kind.
        settings: name of an attribute of loaded exports -> its `Setting`.
        derived: model -> settings that are stored although they are no constructor arguments.
        in_graph: model and `SignatureOptions` -> the settings that a SavedModel changes, because its graph does a part
            of the work.
        options: the names of further `SignatureOptions` that it takes, of those that not all models take.
        needed_parts: the parts of the model that its signatures use; None for all.
        methods: import path of a class with further methods of loaded exports, such as `rank`; or None. With what
            `AnswerSignature` needs, LiteRT and ONNX exports can be served.
        answers: import path of the function that makes the answers from the outputs of `serving_default` and its
            inputs, arrays by name; it returns None for the outputs of another task.
    """

    signatures: str
    outputs: Callable[[Any], Mapping[str, tuple]]
    stored_as: str | None = None
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    derived: Callable[[Any], dict[str, Any]] = lambda model: {}
    in_graph: Callable[[Any, Any], dict[str, Any]] = lambda model, options: {}
    options: tuple[str, ...] = ()
    needed_parts: tuple[str, ...] | None = None
    methods: str | None = None
    answers: str | None = None


@dataclasses.dataclass(frozen=True)
class Head:
    """A part of checkpoints beside the encoder. With `has_labels` or `num_outputs`, it is one dense layer.

    Attributes:
        name: the name of this part in the model, with which the names of its weights begin.
        has_labels: whether it has an output for each label of the model.
        num_outputs: the number of its outputs, if it is always the same.
        weights: config -> the list of its weights (`checkpoints.weight_list.Weight`), if it has several layers. Without
            it, the weights are not checked before they are loaded.
        hugging_face: the ends of the names of its classes in transformers. The first one is written. A head with
            `weights` has none.
        hugging_face_layer: its name there, in families that do not say otherwise; "" is `classifier`, as most have it.
        google: what its names in TensorFlow 1 begin with, before `output_weights` and `output_bias`; None if only
            families name it.
        is_optional: whether there are trained models of its tasks without it.

    Raises:
        ValueError: it has both `weights` and `hugging_face`.
    """

    name: str
    has_labels: bool = False
    num_outputs: int | None = None
    weights: Callable[[Any], list] | None = None
    hugging_face: tuple[str, ...] = ()
    hugging_face_layer: str = ""
    google: str | None = None
    is_optional: bool = False

    def __post_init__(self):
        if self.weights and self.hugging_face:
            raise ValueError(
                f"Folders of transformers hold heads of one dense layer. The head {self.name!r} lists other weights, "
                "so leave hugging_face out."
            )


@dataclasses.dataclass(frozen=True)
class OwnFolder:
    """Folders of transformers with the models of one task, in a form of their own. Import paths are `module.name`.

    Attributes:
        model_type: that of their `config.json`.
        head: the part of a checkpoint that needs this form.
        read: import path of a function: (folder, trust_pickle) -> checkpoint.
        write: import path of a function: (checkpoint, folder) -> the names of the weights that are not written.
    """

    model_type: str
    head: str
    read: str
    write: str


@dataclasses.dataclass(frozen=True)
class Task:
    """One kind of model. Import paths are `module.name`.

    Attributes:
        model: import path of the model class; None for encoders, whose classes are those of the families.
        heads: the parts of its checkpoints beside the encoder.
        text_task: import path of its `TextTask`, the `task_class` of the model, for loaded exports, which do not load
            the model class; None for a model that takes features only.
        start: import path of the function by which such a model starts from a checkpoint of another kind: (model class,
            checkpoint, arguments) -> (arguments, checkpoint). None if weights of equal names suffice.
        read: import path of the function that adds to a `BertCheckpoint` what a `ModelFolder` of sentence-transformers
            says about such a model: (checkpoint, folder) -> checkpoint.
        write: import path of the function that writes this into a folder with the files of transformers: (checkpoint,
            path of the folder) -> the parts whose weights are in its own files.
        told_by: the constructor argument that a checkpoint has only if its files say that it is such a model, since
            other tasks may have the same heads; None if its heads say it.
        own_folder: its folders of transformers, if they have a form of their own.
        only_ours: why only model folders can hold such a model, and what to do: the end of a sentence.
        export: how it is exported for serving; None if it cannot be.
        onnx: import path of the function that adds a model to an ONNX graph: (graph, model) -> name of the output ->
            (value, axes). None if LiteRT and ONNX Runtime cannot run it.
        hugging_face_onnx: the same for ONNX files in folders of transformers, with the outputs that the class there
            has; an array without a name is `logits`. None if transformers has no such class.
        hub_task, example: the name of the task on the Hugging Face hub, and the line of Python in the model card that
            asks the model; None for a model that is rather used as an encoder.
    """

    model: str | None = None
    heads: tuple[Head, ...] = ()
    text_task: str | None = None
    start: str | None = None
    read: str | None = None
    write: str | None = None
    told_by: str | None = None
    own_folder: OwnFolder | None = None
    only_ours: str = ""
    export: Export | None = None
    onnx: str | None = None
    hugging_face_onnx: str | None = None
    hub_task: str | None = None
    example: str | None = None


_TASKS_FOLDER = "keras_bert.tasks"
# Kind of model -> import path of its entry. Of several kinds that fit a checkpoint, the first one is loaded.
TASKS: dict[str, str | Task] = {
    "Encoder": f"{_TASKS_FOLDER}.embedding.entry.ENCODER",
    "SentenceEncoder": f"{_TASKS_FOLDER}.embedding.entry.SENTENCE_ENCODER",
    "SequenceClassifier": f"{_TASKS_FOLDER}.classification.entry.SEQUENCE_CLASSIFIER",
    "SentenceClassifier": f"{_TASKS_FOLDER}.classification.entry.SENTENCE_CLASSIFIER",
    "CrossEncoder": f"{_TASKS_FOLDER}.ranking.entry.CROSS_ENCODER",
    "MultiVectorEncoder": f"{_TASKS_FOLDER}.multi_vector.entry.MULTI_VECTOR_ENCODER",
    "TokenClassifier": f"{_TASKS_FOLDER}.tagging.entry.TOKEN_CLASSIFIER",
    "SpanClassifier": f"{_TASKS_FOLDER}.question_answering.entry.SPAN_CLASSIFIER",
    "MultipleChoice": f"{_TASKS_FOLDER}.multiple_choice.entry.MULTIPLE_CHOICE",
    "ReplacedTokenDetector": f"{_TASKS_FOLDER}.pretraining.entry.REPLACED_TOKEN_DETECTOR",
    "ElectraPretrainer": f"{_TASKS_FOLDER}.pretraining.entry.ELECTRA_PRETRAINER",
    "SparseEncoder": f"{_TASKS_FOLDER}.sparse.entry.SPARSE_ENCODER",
    "MaskedLM": f"{_TASKS_FOLDER}.masked_lm.entry.MASKED_LM",
    "TextToText": f"{_TASKS_FOLDER}.text_to_text.entry.TEXT_TO_TEXT",
    "BertPretrainer": f"{_TASKS_FOLDER}.pretraining.entry.BERT_PRETRAINER",
    "SpanPretrainer": f"{_TASKS_FOLDER}.pretraining.entry.SPAN_PRETRAINER",
    "TransformerXL": f"{_TASKS_FOLDER}.pretraining.entry.TRANSFORMER_XL",
}


def register_task(kind: str, task: Task) -> None:
    """Adds a task. The class of its models has `kind` as the class attribute of this name.

    Raises:
        ValueError: `task` is no `Task`, or the library has a task of this name.
    """
    _check_new(TASKS, kind, task, Task)
    TASKS[kind] = task


def task_of(model: Any) -> Task | None:
    """Returns the entry of a model, a model class or a loaded export; None for a class of a user without an entry."""
    kind = getattr(model, "kind", None)
    return task(kind) if kind in TASKS else None


def task(kind: str) -> Task:
    """Returns the entry of a kind of model."""
    entry = TASKS[kind]
    return imported(entry) if isinstance(entry, str) else entry


def export_of(model: Any) -> Export:
    """Returns how a model is exported that can be exported."""
    entry = task_of(model)
    assert entry is not None
    assert entry.export is not None
    return entry.export


def served_answers(outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> Any:
    """Returns the answers in the outputs of a served model: an answer for each row, as `predict(texts)` returns them.

    Args:
        outputs: the outputs of a signature with answers, such as `serving_default`: arrays `[N, ...]` by name; strings
            may be `bytes` or `str`.
        inputs: what the signature was given, N values by name.

    Returns:
        a list of N objects, an array of N vectors, or None if no task has such outputs.
    """
    exports = [entry.export for entry in map(task, TASKS) if entry.export is not None]
    for path in dict.fromkeys(export.answers for export in exports if export.answers):
        answers = imported(path)(outputs, inputs)
        if answers is not None:
            return answers
    return None


def model_paths() -> list[str]:
    """Returns the import paths of all model classes of tasks."""
    return [entry.model for entry in map(task, TASKS) if entry.model]


def heads() -> dict[str, Head]:
    """Returns name -> head of all tasks, in their order. Of several heads with one name, it is the first one."""
    found: dict[str, Head] = {}
    for head in (head for entry in map(task, TASKS) for head in entry.heads):
        found.setdefault(head.name, head)
    return found


# Kinds of tokenizers.
WORD_PIECE, BYTE_PAIR, SENTENCE_PIECE = "wordpiece", "byte_pair", "sentence_piece"
STREAM = "stream"  # words or characters
BERT_ENCODER = "keras_bert.encoders.bert.encoder.BertEncoder"
BERT_ONNX = "keras_bert.encoders.bert.onnx.OnnxEncoder"


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of models. Its defaults are BERT's. Import paths are `module.name`.

    Attributes:
        defaults: values of the config that all its published models share, where they differ from BERT's.
        sizes: name of a published size -> its values of the config.
        tokenizer: the kind for new models: `WORD_PIECE`, `BYTE_PAIR`, `SENTENCE_PIECE` or `STREAM`. A folder may have
            another kind.
        pairs_need_segments: whether one [SEP] between the two texts of a pair does not suffice to tell them apart.
        masked_lm_act: activation of the masked-LM head; None: the config's `hidden_act`.
        pooler_is_masked_lm_head: whether the pooler of a task starts as the head of the masked LM.
        replaced_tokens_need_first: whether the head that finds replaced tokens adds the first token of the sequence to
            each token, and normalises the sum.
        predicts_from_queries: whether tokens are predicted from a second stream, which does not know them.
        is_static: whether the model is a table of token vectors, without layers.
        is_language_model: whether the model reads from left to right: `encoder` is the whole model, for no task.
        extends: the family whose models can become models of this one, for long rows; or None.
        config, encoder: import paths of the classes.
        onnx: import path of the class that writes the encoder as ONNX operations; None if ONNX cannot hold it, or if
            `BertEncoder` computes the family.
        weights: import path of a function: config -> the list of all weights (`checkpoints.weight_list.Weight`) of the
            encoder and of the heads of pre-training. It loads no Keras.
        hugging_face, google, keras_hub: what files of transformers, of Google's TensorFlow 1 code and of KerasHub have
            of their own; None if there are none.
        own_files: readers and writers of files that are like those of no other family; or None.
    """

    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sizes: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    tokenizer: str = WORD_PIECE
    pairs_need_segments: bool = True
    masked_lm_act: str | None = None
    pooler_is_masked_lm_head: bool = False
    replaced_tokens_need_first: bool = False
    predicts_from_queries: bool = False
    is_static: bool = False
    is_language_model: bool = False
    extends: str | None = None
    config: str = "keras_bert.config.bert_config.BertConfig"
    encoder: str = BERT_ENCODER
    onnx: str | None = None
    weights: str = "keras_bert.encoders.bert.entry.weights"
    hugging_face: "HuggingFace | None" = None
    google: "Google | None" = None
    keras_hub: "KerasHub | None" = None
    own_files: "OwnFiles | None" = None


# The `model_type` of a config -> import path of the family's entry.
FAMILIES: dict[str, str | Family] = {
    "bert": "keras_bert.encoders.bert.entry.FAMILY",
    "roberta": "keras_bert.encoders.roberta.FAMILY",
    "albert": "keras_bert.encoders.albert.FAMILY",
    "distilbert": "keras_bert.encoders.distilbert.FAMILY",
    "electra": "keras_bert.encoders.electra.FAMILY",
    "longformer": "keras_bert.encoders.long.longformer.FAMILY",
    "big_bird": "keras_bert.encoders.long.big_bird.FAMILY",
    "mobilebert": "keras_bert.encoders.mobile_bert.entry.FAMILY",
    "modernbert": "keras_bert.encoders.rotary.modern_bert.FAMILY",
    "xlnet": "keras_bert.encoders.xlnet.entry.FAMILY",
    "xlm-roberta": "keras_bert.encoders.xlm_roberta.FAMILY",
    "camembert": "keras_bert.encoders.xlm_roberta.CAMEMBERT",
    "mpnet": "keras_bert.encoders.mpnet.entry.FAMILY",
    "deberta-v2": "keras_bert.encoders.deberta.entry.FAMILY",
    "nomic_bert": "keras_bert.encoders.rotary.nomic_bert.FAMILY",
    "gte": "keras_bert.encoders.rotary.gte.FAMILY",
    "new": "keras_bert.encoders.rotary.gte.NEW",
    "jina_embeddings_v3": "keras_bert.encoders.rotary.jina_v3.FAMILY",
    "eurobert": "keras_bert.encoders.rotary.euro_bert.FAMILY",
    "gemma3_text": "keras_bert.encoders.rotary.gemma.FAMILY",
    "neobert": "keras_bert.encoders.rotary.neo_bert.FAMILY",
    "transfo-xl": "keras_bert.encoders.transformer_xl.entry.FAMILY",
    "static": "keras_bert.encoders.static.entry.FAMILY",
}


def register_family(model_type: str, entry: Family) -> None:
    """Adds a family. `model_type` is its name in configs.

    Raises:
        ValueError: `entry` is no `Family`, or the library has a family of this name.
    """
    _check_new(FAMILIES, model_type, entry, Family)
    FAMILIES[model_type] = entry


def _check_new(entries: Mapping[str, Any], name: str, entry: Any, its_class: type) -> None:
    if not isinstance(entry, its_class):
        raise ValueError(f"The entry of {name!r} must be a {its_class.__name__}. Received: {entry!r:.100}")
    if isinstance(entries.get(name), str):  # the import path of an entry of the library
        raise ValueError(f"The library has a {its_class.__name__} {name!r}. Register yours by another name.")


def family(model_type: str) -> Family:
    """Returns the entry of a family."""
    entry = FAMILIES[model_type]
    return imported(entry) if isinstance(entry, str) else entry


def families(has: Callable[[Family], Any] = lambda entry: True) -> dict[str, Family]:
    """Returns name -> entry of the families for which `has` is true."""
    entries = {name: family(name) for name in FAMILIES}
    return {name: entry for name, entry in entries.items() if has(entry)}


def size(layers: int, width: int, heads: int, inner: int | None = None, **others: Any) -> dict[str, Any]:
    """Returns the values of the config of a published size. By default, the inner layers are four times as wide."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": inner or 4 * width,
        **others,
    }


def imported(path: str) -> Any:
    """Returns what an import path names: `keras_bert.config.BertConfig` -> the class."""
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)
