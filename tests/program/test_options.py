"""Options check their values: each bound is allowed, the next value beyond it is refused, with one message."""

import dataclasses
import importlib
import math
import pathlib
import re
import textwrap

import numpy as np
import pytest

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.options import Allowed, Options, allowed_values, option

PLACE = pathlib.Path(__file__).parents[2]
PACKAGES = ("keras_bert", "data_prep", "run_scripts")
# The bounds of all options, in the order of the classes and their own fields.
BOUNDS = """
AdaptationOptions: num_new_tokens >=0, max_seq_length >=8, num_train_steps >=0, train_batch_size >=1, learning_rate
    >=0, save_checkpoints_steps >=1, random_seed >=0, num_processes >=1
AnswerOptions: n_best_size >=1, max_answer_length >=1
BertConfig: vocab_size >=1 <=int32, hidden_size >=1 <=int32, num_hidden_layers >=1 <=10000, num_attention_heads >=1
    <=int32, intermediate_size >=1 <=int32, hidden_dropout_prob >=0 <=0.99999, attention_probs_dropout_prob >=0
    <=0.99999, max_position_embeddings >=1 <=int32, type_vocab_size >=0 <=int32, initializer_range >0 <1,
    layer_norm_eps >0 <1, embedding_size >=1 <=int32, num_hidden_groups >=1 <=int32, inner_group_num >=1 <=100,
    position_offset >=0 <=int32
CoSENT: temperature >0
Contrastive: margin >0
DataSet: temperature >0, scale >0, document_regularizer_weight >=0, query_regularizer_weight >=0,
    document_regularizer_threshold >=0, query_regularizer_threshold >=0, warmup_ratio >=0 <=1, matryoshka_dimensions
    >=1
DebertaConfig: position_buckets >=-1 <=int32, max_relative_positions >=-1 <=int32, conv_kernel_size >=0 <=int32
DistillKLDiv: temperature >0, student_temperature >0, teacher_temperature >0
Distillation: layer_map >=0, temperature >0
FineTuningOptions: max_seq_length >=3, num_train_epochs >0, warmup_proportion >=0 <=1, eval_steps >=0, patience >=0,
    layer_decay >0 <=1, freeze_layers >=0, lora_rank >=0, lora_alpha >0
FinetuningOptions: max_seq_length >=3, doc_stride >=1, max_query_length >=1
GISTEmbed: temperature >0
GenerationOptions: length >=1, temperature >=0.0, top_k >=1, rounds >=1, revisions >=0
Grid: batch_sizes >=1
InBatchNegatives: temperature >0
LabelTriplets: margin >0
LambdaLoss: sigma >0, k >=1
LanguageModelOptions: train_batch_size >=1, learning_rate >=0, max_seq_length >=1, adam_beta_2 >=0 <1, num_train_steps
    >=1, num_warmup_steps >=0
LongConfig: max_global_tokens >=1 <=int32, sep_token_id >=0 <=int32, block_size >=1 <=int32, num_random_blocks >=0
    <=int32
MaskingOptions: masked_lm_prob >0 <=1, max_predictions_per_seq >=1, max_ngram_size >=0, ngram_geometric_p >0 <=1,
    mask_share >=0, random_share >=0
MaxSimDistillation: temperature >0
MaxSimInBatchNegatives: scale >0
MobileBertConfig: intra_bottleneck_size >=1 <=int32, num_feedforward_networks >=1 <=100
OptimizerChoice: decay_power >0, num_decay_steps >=1, ema_momentum >=0 <1
PretrainingEvaluation: eval_batch_size >=1, max_eval_steps >=1
PretrainingOptions: max_seq_length >=8, max_predictions_per_seq >=1, random_seed >=0, dupe_factor >=1, masked_lm_prob
    >0 <=1, short_seq_prob >=0 <=1, max_ngram_size >=0, ngram_geometric_p >0 <=1, max_sequences_per_row >=1, reuse_len
    >=0, perm_size >=0, mask_alpha >=1, mask_beta >=1, num_streams >=0
PretrainingPhase: num_train_steps >=1, num_warmup_steps >=0, train_batch_size >=1, learning_rate >=0, max_seq_length
    >=1, max_predictions_per_seq >=0, batch_growth >=1, batch_growth_steps >=0
PretrainingRunOptions: train_batch_size >=1, max_seq_length >=1, max_predictions_per_seq >=0, adam_beta_2 >=0 <1,
    num_train_steps >=1, num_warmup_steps >=0, batch_growth >=1, batch_growth_steps >=0, max_train_hours >0, extend_to
    >=1, eval_steps >=0, mem_len >=0, masked_lm_prob_end >0 <=1, stuck_input_seconds >0
QuestionAnsweringOptions: doc_stride >=1, max_query_length >=1, n_best_size >=1, max_answer_length >=1
RotaryConfig: global_attn_every_n_layers >=1 <=int32, local_attention >=1 <=int32, global_rope_theta >1
    <1000000000000.0, local_rope_theta >1 <1000000000000.0, embedding_dropout >=0 <=0.99999, mlp_dropout >=0
    <=0.99999, num_key_value_heads >=1 <=int32, head_dim >=1 <=int32, query_pre_attn_scalar >0 <1000000.0, rope_factor
    >0.999 <1000000.0
RunOptions: train_batch_size >=1, learning_rate >=0, seed >=0 <=uint32, save_checkpoints_steps >=1,
    keep_checkpoint_max >=0, steps_per_execution >=1, gradient_accumulation_steps >=1
SearchOptions: num_beams >=1, max_new_tokens >=1, min_new_tokens >=0, num_answers >=1
ServerOptions: port >=0 <=65535, num_threads >=1, max_requests >=1, max_rows >=1, max_body_bytes >=1, body_seconds
    >=0.001, timeout_seconds >0, shutdown_seconds >=0
SignatureOptions: max_seq_length >=1, top_k >=1, num_beams >=1, max_new_tokens >=1, num_answers >=1
SpladeLoss: document_regularizer_weight >=0, query_regularizer_weight >=0, document_regularizer_threshold >=0,
    query_regularizer_threshold >=0, scale >0, warmup_ratio >=0 <=1
TextSettings: max_tokens_per_character >0
TransformerXLConfig: mem_len >=0 <=16384, clamp_len >=-1 <=int32, div_val >=1 <=int32
Triplet: margin >0
VocabularyOptions: vocab_size >=1, min_frequency >=1, character_coverage >0 <=1, num_unused_tokens >=0, num_processes
    >=1
Wanted: num_threads >=1, callers >=1
WindowOptions: doc_stride >=1, max_query_length >=1
XLNetConfig: clamp_len >=-1 <=int32
"""
# The values of fields without a default, and of those that others need.
NEEDED = {
    "AdaptationOptions": {"text": ["a.txt"], "init_checkpoint": "bert", "output_dir": "adapted"},
    "DataSet": {"text_columns": ["a", "b"]},
    "Distillation": {"teacher": "bert"},
    "PretrainingEvaluation": {"eval_files": "a"},
    "PretrainingPhase": {"train_files": "a", "num_train_steps": 10},
    "VocabularyOptions": {"input_file": ["a.txt"], "output_file": "vocab.txt"},
}
SIZES = {
    "BertConfig": "tiny",
    "DebertaConfig": "deberta-v3-base",
    "LongConfig": "longformer-base",
    "MobileBertConfig": "mobilebert",
    "ModernBertConfig": "modernbert-base",
    "RotaryConfig": "nomic-embed-text-v1.5",
    "TransformerXLConfig": "transformer-xl-enwik8",
    "XLNetConfig": "xlnet-base",
}


def option_classes() -> list[type]:
    """Returns all classes of options of the library, by name."""
    parents, found = {}, {"Options"}
    for path in (path for package in PACKAGES for path in (PLACE / package).rglob("*.py")):
        module = ".".join(path.relative_to(PLACE).with_suffix("").parts)
        text = path.read_text().partition("\nimport")[2]  # without the docstring
        parents |= {name: (module, parent) for name, parent in re.findall(r"^class (\w+)\((\w+)\):", text, re.M)}
    while new := {name for name, (_, parent) in parents.items() if parent in found} - found:
        found |= new
    return [getattr(importlib.import_module(parents[name][0]), name) for name in sorted(found - {"Options"})]


def written(allowed: Allowed) -> str:
    signs = {">=": allowed.at_least, ">": allowed.above, "<=": allowed.at_most, "<": allowed.below}
    names = {2**31 - 1: "int32", 2**32 - 1: "uint32"}
    return " ".join(f"{sign}{names.get(bound, bound)}" for sign, bound in signs.items() if bound is not None)


def written_bounds(options_class: type) -> str:
    own = options_class.__dict__.get("__annotations__", {})
    bounds = {name: written(allowed) for name, allowed in allowed_values(options_class).items() if name in own}
    return ", ".join(f"{name} {bound}" for name, bound in bounds.items() if bound)


def example(options_class: type) -> Options:
    name = options_class.__name__
    if name in SIZES:
        return BertConfig.from_size(SIZES[name], vocab_size=100_000)
    return options_class(**NEEDED.get(name, {}))


def edges(allowed: Allowed):
    """Returns the first and last allowed values, and the values just beyond them."""
    step = (lambda value, to: value + (1 if to > value else -1)) if allowed.kind is int else math.nextafter
    good = [bound for bound in (allowed.at_least, allowed.at_most) if bound is not None]
    bad = []
    for bound, outwards in ((allowed.at_least, -math.inf), (allowed.at_most, math.inf)):
        bad += [] if bound is None else [step(bound, outwards)]
    for bound, inwards in ((allowed.above, math.inf), (allowed.below, -math.inf)):
        good += [] if bound is None else [step(bound, inwards)]
        bad += [] if bound is None else [bound]
    return good, bad


def wrong_values(allowed: Allowed) -> list:
    """Returns values that no option of this kind has."""
    if allowed.choices:
        return ["no such choice", 1]
    return {int: [True, "1", 1.5, math.nan], float: [True, "1", math.nan, math.inf], bool: [1, "true"], str: [1]}[
        allowed.kind
    ]


def refusal(options: Options, name: str, value) -> str:
    """Returns the error of options with another value, or nothing if there is none."""
    try:
        dataclasses.replace(options, **{name: value})
    except InputError as error:
        return str(error)
    return ""


def test_the_bounds_of_all_options_are_these():
    found = {one.__name__: bounds for one in option_classes() if (bounds := written_bounds(one))}
    lines = [textwrap.fill(f"{name}: {bounds}", 118, subsequent_indent="    ") for name, bounds in found.items()]
    assert "\n".join(lines) == BOUNDS.strip()


def test_every_class_allows_its_bounds_and_refuses_what_is_beyond():
    for options_class in option_classes():
        if options_class.__name__.startswith(("Mixed", "Matryoshka")):  # made of other losses
            continue
        options = example(options_class)
        fixed = {field.name for field in dataclasses.fields(options) if not field.init} | {"model_type"}
        for name, allowed in allowed_values(type(options)).items():
            if name in fixed:
                continue
            as_given = (lambda value: [value]) if allowed.is_list else (lambda value: value)
            good, bad = edges(allowed)
            message = f"{name} must be {allowed}. Received: "
            for value in map(as_given, [*bad, *wrong_values(allowed)]):
                assert refusal(options, name, value).startswith(message), (options_class, value)
            for value in map(as_given, good):  # other options may contradict it
                assert not refusal(options, name, value).startswith(message), (options_class, value)


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (Allowed(int), "a whole number"),
        (Allowed(int, at_least=1, at_most=65535), "a whole number of at least 1 and at most 65,535"),
        (Allowed(float, above=0, below=0.5), "a number above 0 and below 0.5"),
        (Allowed(int, at_least=1, is_list=True), "a list of whole numbers of at least 1"),
        (Allowed(str, choices=("rye", "wheat")), "one of rye, wheat"),
        (Allowed(str), "a text"),
        (Allowed(bool), "true or false"),
    ],
)
def test_a_message_says_what_is_allowed(allowed, words):
    with pytest.raises(InputError) as error:
        allowed.checked("slices", math.nan)
    assert str(error.value) == f"slices must be {words}. Received: nan"


@dataclasses.dataclass(frozen=True)
class Bread(Options):
    slices: int = option(2, at_least=1)
    weight: float | None = option(None, above=0)


def test_numbers_of_numpy_become_those_of_python():
    bread = Bread(np.int64(3), np.float32(0.5))
    assert (type(bread.slices), type(bread.weight)) == (int, float)
    assert bread == Bread(3, 0.5)


def test_a_hostile_value_is_shortened():
    with pytest.raises(InputError) as error:
        Bread(-(10**4000))
    assert len(str(error.value)) < 200


def test_none_is_allowed_where_the_type_has_it():
    assert Bread().weight is None
    with pytest.raises(InputError, match="slices must be a whole number of at least 1. Received: None"):
        Bread(None)
