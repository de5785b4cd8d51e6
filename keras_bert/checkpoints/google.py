"""Checkpoints of google-research/bert (TensorFlow 1): `bert_config.json`, `vocab.txt` and `bert_model.ckpt.*`.

Reference: google-research/bert `modeling.py`, `run_pretraining.py`, `run_classifier.py`, `run_squad.py`.
"""

import os
import re
from collections.abc import Mapping

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import AdamSlots, BertCheckpoint, StoredTensor
from keras_bert.checkpoints.name_table import SAME, TRANSPOSED, NameTable, to_ours, to_theirs
from keras_bert.checkpoints.tensorflow_checkpoint import write_tensorflow_checkpoint
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import member, read_json_object, strings
from keras_bert.tokenization.vocabulary import Vocabulary

CONFIG_FILE = "bert_config.json"
VOCABULARY_FILE = "vocab.txt"
PREFIX = "bert_model.ckpt"
_OUR_KEY = "keras_bert"  # an added key of bert_config.json: Google keeps tasks and labels in code


def _dense(ours: str, theirs: str) -> list[tuple]:
    return [(f"{ours}/{part}", f"{theirs}/{part}", SAME) for part in ("kernel", "bias")]


def _layer_norm(ours: str, theirs: str) -> list[tuple]:
    return [(f"{ours}/{part}", f"{theirs}/{part}", SAME) for part in ("gamma", "beta")]


def _output(ours: str, theirs: str) -> list[tuple]:
    """The last layer of a task, which Google keeps as [classes, inputs]."""
    return [(f"{ours}/kernel", f"{theirs}output_weights", TRANSPOSED), (f"{ours}/bias", f"{theirs}output_bias", SAME)]


_LAYER, _THEIR_LAYER = "encoder/layer_*", "bert/encoder/layer_*"
_TABLE = NameTable(
    [
        (form.TOKEN_EMBEDDINGS, "bert/embeddings/word_embeddings", SAME),
        (form.POSITION_EMBEDDINGS, "bert/embeddings/position_embeddings", SAME),
        ("encoder/embeddings/segment_embeddings", "bert/embeddings/token_type_embeddings", SAME),
        *_layer_norm("encoder/embeddings/layer_norm", "bert/embeddings/LayerNorm"),
        *_dense(f"{_LAYER}/attention/query", f"{_THEIR_LAYER}/attention/self/query"),
        *_dense(f"{_LAYER}/attention/key", f"{_THEIR_LAYER}/attention/self/key"),
        *_dense(f"{_LAYER}/attention/value", f"{_THEIR_LAYER}/attention/self/value"),
        *_dense(f"{_LAYER}/attention/output_dense", f"{_THEIR_LAYER}/attention/output/dense"),
        *_layer_norm(f"{_LAYER}/attention_layer_norm", f"{_THEIR_LAYER}/attention/output/LayerNorm"),
        *_dense(f"{_LAYER}/intermediate_dense", f"{_THEIR_LAYER}/intermediate/dense"),
        *_dense(f"{_LAYER}/output_dense", f"{_THEIR_LAYER}/output/dense"),
        *_layer_norm(f"{_LAYER}/output_layer_norm", f"{_THEIR_LAYER}/output/LayerNorm"),
        *_dense("encoder/pooler/dense", "bert/pooler/dense"),
        *_dense("masked_lm_head/dense", "cls/predictions/transform/dense"),
        *_layer_norm("masked_lm_head/layer_norm", "cls/predictions/transform/LayerNorm"),
        (form.OUTPUT_BIAS, "cls/predictions/output_bias", SAME),
        *_output(form.NEXT_SENTENCE, "cls/seq_relationship/"),
        *_output(form.SPAN_CLASSIFIER, "cls/squad/"),
    ]
)
# Google's scripts call the last layer of any task `output_weights`; which task it is, an added key of the config says.
_TASK_HEADS = (form.CLASSIFIER, form.TOKEN_CLASSIFIER, form.MULTIPLE_CHOICE)
_TASK_TABLES = {head: NameTable(_output(head, "")) for head in _TASK_HEADS}
_OPTIMIZER = re.compile(
    r".*/(adam_[mv]|Adam(_1)?|lamb_[mv]|AdamWeightDecayOptimizer(_1)?)$|.*(beta[12]_power|loss_scale).*"
)
_GLOBAL_STEP = "global_step"


def google_checkpoint(prefix: str, variables: Mapping[str, StoredTensor]) -> BertCheckpoint:
    """Returns the checkpoint that variables with Google's names make, with the config and vocabulary beside them."""
    folder = os.path.dirname(prefix)
    config, says_casing, ours = read_config(folder)
    config_file = os.path.join(folder, CONFIG_FILE)
    head = member(ours, "output_weights", str, config_file)
    head = head if head in _TASK_TABLES else form.CLASSIFIER
    tensors, slots, ignored = {}, [], []
    for name, variable in variables.items():
        found = _TABLE.ours(name) or _TASK_TABLES[head].ours(name)
        if found:
            tensors[found[0]] = to_ours(variable, found[1])
        elif _OPTIMIZER.fullmatch(name) or name == _GLOBAL_STEP:
            slots.append(name)
        else:
            ignored.append(name)
    if form.TOKEN_EMBEDDINGS not in tensors:
        raise InputError(
            f"{prefix} holds no BERT: bert/embeddings/word_embeddings is missing. Its variables are called "
            f"{', '.join(list(variables)[:3])}, ..."
        )
    labels = None
    if head != form.MULTIPLE_CHOICE and f"{head}/bias" in tensors:
        count = form.num_outputs(prefix, tensors, head)
        labels = tuple(strings(ours, "labels", config_file) or [f"LABEL_{number}" for number in range(count)])
    one_output = labels is not None and head == form.CLASSIFIER and len(labels) == 1
    return BertCheckpoint(
        path=prefix,
        kind="Google TensorFlow 1",
        config=config,
        vocabulary=read_vocabulary(folder),
        tensors=tensors,
        labels=labels,
        problem_type=member(ours, "problem_type", str, config_file, "regression" if one_output else "classification"),
        ignored=tuple(ignored + ([f"{len(slots)} variables of the optimizer"] if slots else [])),
        says_casing=says_casing,
    )


def read_config(folder: str) -> tuple[BertConfig, bool, dict]:
    """Returns the config of a folder, whether it says the casing, and what `write_google` added to it."""
    file = os.path.join(folder, CONFIG_FILE)
    config = BertConfig.from_json_file(file)
    says_casing = "do_lower_case" in read_json_object(file)
    ours = config.extra.get(_OUR_KEY)
    extra = {key: value for key, value in config.extra.items() if key != _OUR_KEY}
    return config.replace(extra=extra), says_casing, ours if isinstance(ours, dict) else {}


def read_vocabulary(folder: str) -> Vocabulary | None:
    file = os.path.join(folder, VOCABULARY_FILE)
    return Vocabulary.from_file(file) if os.path.isfile(file) else None


def write_google(checkpoint: BertCheckpoint, folder: str) -> list[str]:
    """Writes `bert_config.json`, `vocab.txt` and `bert_model.ckpt.*` into an existing folder.

    Returns:
        The names of our weights that have no place there; they are not written.

    Raises:
        InputError: the masked-LM head has an output table of its own, without which it would compute other things.
    """
    config = checkpoint.config
    if form.OUTPUT_EMBEDDINGS in checkpoint.tensors:
        raise InputError(
            f"{checkpoint.path}: the masked-LM head has an output table of its own (tie_word_embeddings is false), and "
            "Google's format has no place for it. Write the Hugging Face or the keras_bert format."
        )
    head = next((head for head in _TASK_HEADS if head in checkpoint.heads), form.CLASSIFIER)
    variables, left_out = {}, []
    for name, tensor in checkpoint.tensors.items():
        theirs = _their_name(name, head)
        if theirs:
            variables[theirs[0]] = to_theirs(tensor, theirs[1])
        else:
            left_out.append(name)
    if checkpoint.adam is not None:
        variables |= _adam_variables(checkpoint.adam, head)
    if head in checkpoint.heads:
        ours = {"output_weights": head} | ({"labels": list(checkpoint.labels)} if checkpoint.labels else {})
        if head == form.CLASSIFIER and checkpoint.problem_type != "classification":
            ours["problem_type"] = checkpoint.problem_type
        config = config.replace(extra={**config.extra, _OUR_KEY: ours})
    config.save(os.path.join(folder, CONFIG_FILE))
    if checkpoint.vocabulary is not None:
        checkpoint.vocabulary.save(os.path.join(folder, VOCABULARY_FILE))
    write_tensorflow_checkpoint(os.path.join(folder, PREFIX), variables)
    return left_out


def _their_name(name: str, head: str) -> tuple[str, str] | None:
    return _TABLE.theirs(name) or _TASK_TABLES[head].theirs(name)


def _adam_variables(adam: AdamSlots, head: str) -> dict[str, StoredTensor]:
    """Returns the variables of Google's `optimization.py`: each slot lies as its weight does."""
    variables = {_GLOBAL_STEP: adam.num_updates}
    for ending, slots in (("adam_m", adam.momentums), ("adam_v", adam.velocities)):
        for name, slot in slots.items():
            theirs = _their_name(name, head)
            if theirs:
                variables[f"{theirs[0]}/{ending}"] = to_theirs(slot, theirs[1])
    return variables


def warnings_for_google(config: BertConfig) -> list[str]:
    """Returns what google-research/bert would compute differently with weights of this config."""
    found = []
    if config.hidden_act == "gelu_erf":
        found.append(
            "google-research/bert has only the tanh approximation of GELU and will refuse hidden_act 'gelu_erf'; with "
            "'gelu' in bert_config.json its outputs differ slightly"
        )
    if config.layer_norm_eps != 1e-12:
        found.append(f"google-research/bert computes LayerNorm with 1e-12, not with {config.layer_norm_eps}")
    return found
