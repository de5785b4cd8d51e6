"""Checkpoints of Google's TensorFlow 1 code: BERT, and the families whose entry has a `Google`.

A folder has a config, `vocab.txt` or `spiece.model`, and `*.ckpt.*`.

Reference: google-research/bert `modeling.py`, `run_pretraining.py`, `run_classifier.py`, `run_squad.py`.
"""

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import AdamSlots, BertCheckpoint, StoredTensor
from keras_bert.checkpoints.family_formats import Google, google_names
from keras_bert.checkpoints.name_table import NameTable, to_theirs
from keras_bert.checkpoints.same_family import check_same_family
from keras_bert.checkpoints.tensorflow_checkpoint import write_tensorflow_checkpoint
from keras_bert.config import SENTENCE_POOLING, BertConfig
from keras_bert.program.errors import InputError, named
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member, read_json_object, strings, write_json
from keras_bert.registry import families, heads, imported
from keras_bert.tokenization.kinds import as_tokenizer, find_vocabulary
from keras_bert.tokenization.tokenizer import TokenTable
from keras_bert.tokenization.vocabulary import Vocabulary

CONFIG_FILE = "bert_config.json"
VOCABULARY_FILE = "vocab.txt"
PREFIX = "bert_model.ckpt"
_OUR_KEY = "keras_bert"  # an added key of bert_config.json: Google keeps tasks and labels in code
_OPTIMIZER = re.compile(
    r".*/(adam_[mv]|Adam(_1)?|lamb_[mv]|AdamWeightDecayOptimizer(_1)?)$|.*(beta[12]_power|loss_scale).*"
)
_GLOBAL_STEP = "global_step"
# Keys of Google's multilingual models that its code does not read.
UNUSED_KEYS = (
    *("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_type"),
    *("pooler_size_per_head", "gap_size", "net_structure_type", "num_memory_blocks", "down_scale_factor"),
)
_FIXED = {"ln_type": ("postln",), "layers_to_keep": ([],)}


def google_checkpoint(prefix: str, variables: Mapping[str, StoredTensor]) -> BertCheckpoint:
    """Returns the checkpoint of variables with Google's names, with the config and vocabulary from the same folder."""
    folder = os.path.dirname(prefix)
    config, casing, ours = read_config(folder, variables)
    config_file = _config_file(folder)
    head = member(ours, "output_weights", str, config_file)
    head = head if head in _alike() else form.CLASSIFIER
    table = google_names(config, head)
    google = config.family.google or Google()
    variables = google.divided(variables, config.num_hidden_layers)
    generator = google.of_generator(variables)
    tensors, unknown = table.read({name: one for name, one in variables.items() if name not in generator})
    slots = [name for name in unknown if _OPTIMIZER.fullmatch(name) or name == _GLOBAL_STEP]
    ignored = [name for name in unknown if name not in slots]
    form.without_unused_embedding(tensors, ignored)
    if form.TOKEN_EMBEDDINGS not in tensors:
        table = table.theirs(form.TOKEN_EMBEDDINGS) or ("bert/embeddings/word_embeddings",)
        raise form.no_bert(prefix, table[0], variables, "variables")
    labels = None
    if heads()[head].has_labels and f"{head}/bias" in tensors:
        count = form.num_outputs(prefix, tensors, head)
        labels = tuple(strings(ours, "labels", config_file) or [f"LABEL_{number}" for number in range(count)])
    one_output = labels is not None and head == form.CLASSIFIER and len(labels) == 1
    return BertCheckpoint(
        path=prefix,
        kind="Google TensorFlow 1",
        config=config,
        tokenizer=read_tokenizer(folder, casing),
        tensors=tensors,
        labels=labels,
        problem_type=member(ours, "problem_type", str, config_file, "regression" if one_output else "classification"),
        ignored=tuple(
            ignored
            + ([f"{len(generator)} variables of the generator"] if generator else [])
            + ([f"{len(slots)} variables of the optimizer"] if slots else [])
        ),
    )


def read_config(
    folder: str, variables: Mapping[str, StoredTensor] | None = None
) -> tuple[BertConfig, bool | None, dict]:
    """Returns the config of a folder, the casing if it states that, and the values that `write_google` added.

    Args:
        folder: a folder with a `_config_file`. If it has none, some families derive the config from the shapes.
        variables: Google's names -> tensors, which determine the family if the config does not; None for BERT.
    """
    family = _family_of(variables or ())
    file = _config_file(folder)
    if os.path.isfile(file):
        values = read_json_object(file)
    else:
        sizes = families()[family].google.sizes
        values = sizes(folder, variables) if sizes else {}
    if values:
        _check_keys(values, family, file)
    stated = families().get(values.get("model_type", family))
    if values and (stated is None or stated.defaults):
        # There is a projection if the two widths differ, see `BertConfig`. In transformers there always is one.
        defaults = {"model_type": family, **families()[family].defaults, "embedding_projection": None}
        if stated and stated.google:
            values = stated.google.read(values, file)
        with named(file):
            config = BertConfig.from_dict({**defaults, **values})
    else:
        config = BertConfig.from_json_file(file)
    ours = config.extra.get(_OUR_KEY)
    extra = {key: value for key, value in config.extra.items() if key != _OUR_KEY}
    casing = config.do_lower_case if "do_lower_case" in values else None
    return config.replace(extra=extra), casing, ours if isinstance(ours, dict) else {}


def _alike() -> list[str]:
    """Returns the heads that Google's scripts name alike: an added key of the config tells which one it is."""
    return [name for name, head in heads().items() if head.google == ""]


def _check_keys(values: Mapping, family: str, file: str) -> None:
    """Raises `InputError` if the config has a key that is not known."""
    family = member(values, "model_type", str, file, family)
    entry = families().get(family)
    if entry is None:
        return  # refused by `BertConfig`
    used = [field.name for field in dataclasses.fields(imported(entry.config)) if field.name != "extra"]
    more = entry.google.more if entry.google else KnownKeys()
    used += [*more.used, _OUR_KEY, SENTENCE_POOLING]
    KnownKeys(used, (*UNUSED_KEYS, *more.harmless), more.fixed or _FIXED).check(values, file)


def _config_file(folder: str) -> str:
    """Returns the path of the config in a folder, `<family>_config.json`; that of BERT if there is none."""
    files = [os.path.join(folder, f"{name}_config.json") for name in families(has=lambda entry: entry.google)]
    return next((file for file in files if os.path.isfile(file)), files[0])


def _family_of(names: Iterable[str]) -> str:
    names, signed = list(names), families(has=lambda entry: entry.google and entry.google.sign)
    signs = {family: re.compile(entry.google.sign) for family, entry in signed.items()}
    return next((family for family, sign in signs.items() if any(map(sign.fullmatch, names))), "bert")


def read_tokenizer(folder: str, casing: bool | None) -> TokenTable | None:
    """Returns the tokenizer of a folder, or a `Vocabulary` if its `casing` is not known; None without a vocabulary."""
    vocabulary = find_vocabulary(folder, reads_tokenizer_json=False)
    return vocabulary if casing is None else as_tokenizer(vocabulary, casing)


def write_google(checkpoint: BertCheckpoint, folder: str) -> list[str]:
    """Writes `<family>_config.json`, `vocab.txt` and `bert_model.ckpt.*`; returns the names of weights without a place.

    Raises `InputError` if Google has not published this family, or the masked-LM head has its own output table.
    """
    config = checkpoint.config
    theirs = config.family.google
    if theirs is None:
        raise InputError(
            f"Google's format cannot hold a model of the family {config.model_type}. Write it with "
            "format='keras_bert' or 'huggingface'."
        )
    if form.OUTPUT_EMBEDDINGS in checkpoint.tensors:
        raise InputError(
            f"{checkpoint.path}: the masked-LM head has its own output table (tie_word_embeddings is false), which "
            "Google's format cannot hold. Use format='huggingface' or 'keras_bert'."
        )
    head = next((head for head in _alike() if head in checkpoint.heads), form.CLASSIFIER)
    table = google_names(config, head)
    has_pooler = f"{form.POOLER}/dense/kernel" in checkpoint.tensors and theirs.has_pooler
    check_same_family(checkpoint, "Google's code", always_projects=False, has_pooler=has_pooler)
    variables, left_out = table.write(checkpoint.tensors, config.num_attention_heads)
    variables = dict(theirs.joined(variables, config.num_hidden_layers))
    if checkpoint.adam is not None:
        variables |= _adam_variables(checkpoint.adam, table)
    if head in checkpoint.heads:
        ours = {"output_weights": head} | ({"labels": list(checkpoint.labels)} if checkpoint.labels else {})
        if head == form.CLASSIFIER and checkpoint.problem_type != "classification":
            ours["problem_type"] = checkpoint.problem_type
        config = config.replace(extra={**config.extra, _OUR_KEY: ours})
    write_json(os.path.join(folder, f"{config.model_type}_config.json"), theirs.write(config))
    if checkpoint.tokenizer is not None:
        checkpoint.tokenizer.with_pair_rule(longer_keeps_more=False).save(folder)
    write_tensorflow_checkpoint(os.path.join(folder, PREFIX), variables)
    return left_out


def _adam_variables(adam: AdamSlots, table: NameTable) -> dict[str, StoredTensor]:
    """Returns the slot variables of Google's `optimization.py`, each in the layout of its weight."""
    variables = {_GLOBAL_STEP: adam.num_updates}
    for ending, slots in (("adam_m", adam.momentums), ("adam_v", adam.velocities)):
        for name, slot in slots.items():
            theirs = table.theirs(name)
            if theirs:
                variables[f"{theirs[0]}/{ending}"] = to_theirs(slot, theirs[1])
    return variables


def warnings_for_google(config: BertConfig, vocabulary: TokenTable | None = None) -> list[str]:
    """Returns what google-research/bert would compute differently with weights of this config."""
    found = []
    if isinstance(vocabulary, Vocabulary) and vocabulary.has_settings:
        found.append(
            "google-research/bert reads vocab.txt only: it does not know the added tokens and the settings for accents "
            "and Chinese characters in tokenizer_config.json"
        )
    if config.hidden_act in config.family.google.warnings:
        found.append(config.family.google.warnings[config.hidden_act])
    if config.layer_norm_eps != 1e-12:
        found.append(f"google-research/bert computes LayerNorm with 1e-12, not with {config.layer_norm_eps}")
    return found
