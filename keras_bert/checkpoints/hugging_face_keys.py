"""The keys of `config.json` of transformers: those that each family has, and those that change none of our results.

Reference: huggingface/transformers, `configuration_utils.py` of the versions 2 to 5, `models/*/configuration_*.py`,
and the `config.json` of published models.
"""

import dataclasses

from keras_bert.checkpoints.google import UNUSED_KEYS
from keras_bert.checkpoints.xlnet_files import FIXED as XLNET_FIXED
from keras_bert.config import SENTENCE_POOLING, config_class
from keras_bert.program.foreign_keys import KnownKeys

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
    *("_name_or_path", "name_or_path", "_commit_hash", "_from_model_config", "transformers_version"),
    *("_num_labels", "num_labels", "label2id"),
    *("torch_dtype", "dtype", "torchscript", "use_bfloat16", "xla_device", "tf_legacy_loss", "is_training"),
    *("output_attentions", "output_hidden_states", "output_past", "return_dict", "use_return_dict", "use_cache"),
    *("_attn_implementation", "attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal"),
    *("_experts_implementation", "experts_implementation", "_flash_attn_2_enabled", "use_memory_efficient_attention"),
    *("gradient_checkpointing", "chunk_size_feed_forward", "classifier_dropout", "classifier_dropout_prob"),
    *("finetuning_task", "task_specific_params", "prefix", "keys_to_ignore_at_inference", "custom_pipelines"),
    *("bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id", "mask_token_id", "unk_token_id"),
    *("decoder_start_token_id", "cross_attention_hidden_size", "tie_encoder_decoder"),
    *("model_max_length", "max_seq_length", "do_lower_case"),
    # AutoTrain, FARM, unsloth, transformers.js, optimum
    *("padding", "truncation", "language", "name", "model_name", "label_smoothing", "unsloth_fixed", "unsloth_version"),
    *("transformers.js_config", "export_model_type"),
    # multilingual BERT, ALBERT, TinyBERT
    *(*UNUSED_KEYS, "emb_size"),
    # fields of other families
    *("embedding_size", "num_hidden_groups", "inner_group_num", "type_vocab_size"),
)
# Each class is read by the files of its tokenizer. Others cut texts by rules that no file says.
_TOKENIZERS = ("Bert", "DistilBert", "Electra", "MobileBert", "Roberta", "Longformer", "BigBird", "Albert", "XLNet")
_TOKENIZERS = (*(f"{name}Tokenizer" for name in (*_TOKENIZERS, "TransfoXL", "XLMRoberta")), "PreTrainedTokenizer")
FIXED = {
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "is_encoder_decoder": (False,),
    "position_embedding_type": ("absolute",),
    "pruned_heads": ({},),
    "layers_to_keep": ([],),
    "problem_type": ("single_label_classification", "multi_label_classification", "regression"),
    "tokenizer_class": (*_TOKENIZERS, *(f"{name}Fast" for name in _TOKENIZERS)),
    "adapters": ({}, {"adapters": {}, "config_map": {}, "fusion_config_map": {}, "fusions": {}}),
    # TinyBERT
    **{"cell": ({},), "structure": ([],), "pre_trained": ("",), "training": ("",)},
}
REFUSED = {
    "quantization_config": "its weights are quantised. Save it dequantised, with the library that quantised it.",
    "auto_map": "the model is computed by code in its folder. Only the models of transformers itself are supported.",
    "peft_type": "the folder has an adapter only. Merge it into its base model (merge_and_unload), and save that.",
}
_USED = ("architectures", "model_type", "id2label", "pad_token_id", "sentence_transformers", SENTENCE_POOLING)
_USED = (*_USED, "sbert_ce_default_activation_function")
# Fields of our configs that no file of transformers has.
_OURS = ("extra", "do_lower_case", "position_offset", "embedding_projection", "pooler_act")
_OWN_SIZES = ("embedding_size", "num_hidden_groups", "inner_group_num")  # of `BertConfig`, for the families below
_SIZES_OF = {"albert": _OWN_SIZES, "electra": _OWN_SIZES[:1], "mobilebert": _OWN_SIZES[:1]}
_MODERN_BERT_NAMES = ("hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps")
# Fields that a family names otherwise, or has not.
_NOT_OF = {"distilbert": ("type_vocab_size",), "modernbert": (*_MODERN_BERT_NAMES, "type_vocab_size")}
# Family -> what its files have besides.
_MORE = {
    "distilbert": KnownKeys(harmless=("sinusoidal_pos_embds", "tie_weights_", "qa_dropout", "seq_classif_dropout")),
    "electra": KnownKeys(
        used=("summary_type", "summary_use_proj", "summary_activation"),
        harmless=("summary_last_dropout", "summary_first_dropout"),
        fixed={"summary_proj_to_labels": (False,)},
    ),
    "mobilebert": KnownKeys(
        harmless=("true_hidden_size",), fixed={"trigram_input": (True,), "use_bottleneck": (True,)}
    ),
    "longformer": KnownKeys(
        harmless=("onnx_export",),
        fixed={"attention_mode": ("longformer",), "ignore_attention_mask": (False,), "autoregressive": (False,)},
    ),
    "big_bird": KnownKeys(fixed={"rescale_embeddings": (False,), "use_bias": (True,)}),
    "xlnet": KnownKeys(
        used=("d_head",),
        harmless=(
            *("mem_len", "reuse_len", "use_mems_eval", "use_mems_train", "start_n_top", "end_n_top", "untie_r"),
            *("summary_last_dropout", "summary_first_dropout", "init", "init_range", "init_std", "dropatt"),
        ),
        fixed=XLNET_FIXED,
    ),
    "modernbert": KnownKeys(
        used=("layer_types", "rope_parameters", "rope_scaling"),
        harmless=(
            *("initializer_cutoff_factor", "deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"),
            *("sparse_prediction", "sparse_pred_ignore_index", *_MODERN_BERT_NAMES),
        ),
        fixed={"decoder_bias": (True,)},
    ),
}


def known_keys(model_type: str, renamed: tuple[str, ...] = ()) -> KnownKeys:
    """Returns the keys of the `config.json` of a family.

    Args:
        model_type: a key of `families.FAMILIES`.
        renamed: its keys that have another name than our fields.
    """
    more = _MORE.get(model_type, KnownKeys())
    sizes = set(_OWN_SIZES) - set(_SIZES_OF.get(model_type, ()))
    absent = {*_OURS, *sizes, *_NOT_OF.get(model_type, ())}
    fields = [field.name for field in dataclasses.fields(config_class(model_type)) if field.name not in absent]
    return KnownKeys(
        used=(*fields, *renamed, *_USED, *more.used),
        harmless=(*HARMLESS, *more.harmless),
        fixed=FIXED | dict(more.fixed),
        refused=REFUSED,
    )
