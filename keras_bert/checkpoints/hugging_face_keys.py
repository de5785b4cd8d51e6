"""The keys of `config.json` of transformers that all families have, and those that change none of our results.

Reference: huggingface/transformers, `configuration_utils.py` of the versions 2 to 5, `models/*/configuration_*.py`,
and the `config.json` of published models.
"""

import dataclasses

from keras_bert.checkpoints.family_formats import OWN_SIZES
from keras_bert.checkpoints.google import UNUSED_KEYS
from keras_bert.config import SENTENCE_POOLING
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import Family, families, imported
from keras_bert.tokenization.tokenizer_json import (
    BYTE_FALLBACK_CLASSES,
    BYTE_PAIR_CLASSES,
    GENERIC_CLASSES,
    SENTENCE_PIECE_CLASSES,
    WORD_PIECE_CLASSES,
)

# Settings for writing texts. An encoder writes none.
GENERATION = (
    *("max_length", "min_length", "max_new_tokens", "min_new_tokens", "max_time", "do_sample", "early_stopping"),
    *("num_beams", "num_beam_groups", "num_return_sequences", "diversity_penalty", "temperature", "top_k", "top_p"),
    *("min_p", "typical_p", "epsilon_cutoff", "eta_cutoff", "penalty_alpha", "repetition_penalty", "length_penalty"),
    *("encoder_repetition_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids"),
    *("force_words_ids", "sequence_bias", "suppress_tokens", "begin_suppress_tokens", "forced_decoder_ids"),
    *("forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values", "renormalize_logits"),
    *("exponential_decay_length_penalty", "guidance_scale", "output_scores", "output_logits", "stop_strings"),
    "return_dict_in_generate",
)
# What a file says about its origin and about programs that read it, and settings that change no outputs.
HARMLESS = (
    *GENERATION,
    *("_name_or_path", "name_or_path", "pretrained_model_name_or_path", "trust_remote_code", "_commit_hash"),
    *("_from_model_config", "transformers_version", "matryoshka_dimensions"),
    *("_num_labels", "num_labels", "label2id"),
    *("torch_dtype", "dtype", "torchscript", "use_bfloat16", "xla_device", "tf_legacy_loss", "is_training"),
    *("output_attentions", "output_hidden_states", "output_past", "return_dict", "use_return_dict", "use_cache"),
    *("_attn_implementation", "attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal"),
    *("_experts_implementation", "experts_implementation", "_flash_attn_2_enabled", "use_memory_efficient_attention"),
    *("gradient_checkpointing", "chunk_size_feed_forward", "classifier_dropout", "classifier_dropout_prob"),
    *("finetuning_task", "task_specific_params", "prefix", "keys_to_ignore_at_inference", "custom_pipelines"),
    # the files of the tokenizer name its tokens
    *(f"{role}_token{end}" for role in ("bos", "eos", "sep", "cls", "mask", "unk") for end in ("", "_id")),
    "pad_token",
    *("decoder_start_token_id", "cross_attention_hidden_size", "tie_encoder_decoder"),
    *("model_max_length", "max_seq_length", "do_lower_case"),
    # AutoTrain, FARM, unsloth, transformers.js, optimum
    *("padding", "truncation", "language", "name", "model_name", "label_smoothing", "unsloth_fixed", "unsloth_version"),
    *("transformers.js_config", "export_model_type"),
    # Google's models, TinyBERT
    *(*UNUSED_KEYS, "emb_size"),
    # fields of other families
    *("embedding_size", "num_hidden_groups", "inner_group_num", "type_vocab_size"),
)
_FIXED = {
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "is_encoder_decoder": (False,),
    "position_embedding_type": ("absolute",),
    "pruned_heads": ({},),
    "layers_to_keep": ([],),
    "problem_type": ("single_label_classification", "multi_label_classification", "regression"),
    "adapters": ({}, {"adapters": {}, "config_map": {}, "fusion_config_map": {}, "fusions": {}}),
    # TinyBERT
    **{"cell": ({},), "structure": ([],), "pre_trained": ("",), "training": ("",)},
}
REFUSED = {
    **dict.fromkeys(
        ("quantization_config", "quantization"),
        "its weights are quantised. Save it dequantised, with the library that quantised it.",
    ),
    "auto_map": "the model is computed by code in its folder. Only the models of transformers itself are supported.",
    "peft_type": "the folder has an adapter only. Merge it into its base model (merge_and_unload), and save that.",
}
_USED = ("architectures", "model_type", "id2label", "pad_token_id", "sentence_transformers", SENTENCE_POOLING)
_USED = (*_USED, "sbert_ce_default_activation_function")
# Fields of our configs that no file of transformers has.
_OURS = ("extra", "do_lower_case", "position_offset", "embedding_projection", "pooler_act")


def fixed_values() -> dict[str, tuple]:
    """Returns the keys of a `config.json` of any family that have only certain values."""
    # Each class is read by the files of its tokenizer. Others cut texts by rules that no file says.
    named = (*WORD_PIECE_CLASSES, *BYTE_PAIR_CLASSES, *BYTE_FALLBACK_CLASSES, *SENTENCE_PIECE_CLASSES)
    named = (*named, "TransfoXL", "PreTrained")
    formats = [entry.hugging_face for entry in families(has=lambda entry: entry.hugging_face).values()]
    classes = [f"{name}Tokenizer" for name in dict.fromkeys([*named, *(theirs.classes for theirs in formats)])]
    classes += [f"{name}Fast" for name in classes]
    return {**_FIXED, "tokenizer_class": tuple(dict.fromkeys([*classes, *GENERIC_CLASSES]))}


def known_keys(family: Family) -> KnownKeys:
    """Returns the keys of the `config.json` of a family."""
    theirs = family.hugging_face
    absent = {*_OURS, *OWN_SIZES, *theirs.absent} - set(theirs.sizes)
    fields = dataclasses.fields(imported(family.config))
    return KnownKeys(
        used=(*(field.name for field in fields if field.name not in absent), *theirs.keys, *_USED, *theirs.more.used),
        harmless=(*HARMLESS, *theirs.more.harmless),
        fixed=fixed_values() | dict(theirs.more.fixed),
        refused={name: reason for name, reason in REFUSED.items() if name not in theirs.more.harmless}
        | dict(theirs.more.refused),
    )
