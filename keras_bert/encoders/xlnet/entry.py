"""XLNet. Reference: Yang et al., 2019, arXiv 1906.08237; zihangdai/xlnet; transformers, `models/xlnet/`."""

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.family_formats import Google, HuggingFace
from keras_bert.checkpoints.name_table import AS_FIRST_ROWS, HEADS_LAST, HEADS_OUT
from keras_bert.checkpoints.weight_list import LAYER, POOLER, Weight, dense, in_layers, layer_norm
from keras_bert.config import BertConfig
from keras_bert.encoders.xlnet import files
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import SENTENCE_PIECE, Family, size


def weights(config: BertConfig) -> list[Weight]:
    """Returns the weights of an XLNet. In Google's files, `files.divided` makes a variable for each layer."""
    width, table, scope = config.hidden_size, (config.vocab_size, config.hidden_size), "model/transformer"
    mask_embedding = Weight(
        *(form.MASK_EMBEDDING, (width,), "transformer.mask_emb", f"{scope}/mask_emb/mask_emb"),
        hugging_face_layout=AS_FIRST_ROWS,
        google_layout=AS_FIRST_ROWS,
    )
    return [
        Weight(
            form.TOKEN_EMBEDDINGS, table, "transformer.word_embedding.weight", f"{scope}/word_embedding/lookup_table"
        ),
        *in_layers(_layer(config), config.num_hidden_layers),
        # The name is misspelt in Google's code.
        *dense(POOLER, width, width, google="model/sequnece_summary/summary"),
        mask_embedding,
        Weight(form.OUTPUT_BIAS, (config.vocab_size,), "lm_loss.bias", "model/lm_loss/bias"),
        Weight(form.OUTPUT_EMBEDDINGS, table, "lm_loss.weight", is_needed=False),
    ]


def _layer(config: BertConfig) -> list[Weight]:
    theirs, google, width = "transformer.layer.*", "model/transformer/layer_*", config.hidden_size
    heads, inner, rows = (config.num_attention_heads, config.head_size), config.intermediate_size, []
    for name, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("distance", "r"), ("output_dense", "o")):
        layout = HEADS_LAST if letter == "o" else HEADS_OUT
        names = f"{theirs}.rel_attn.{letter}", f"{google}/rel_attn/{letter}/kernel"
        kernel = Weight(f"{LAYER}/attention/{name}/kernel", (width, width), *names)
        rows.append(kernel._replace(hugging_face_layout=layout, google_layout=layout))
    for name, their_name in files.ATTENTION.items():
        shape = (2, *heads) if name == "segment_embeddings" else heads
        names = f"{theirs}.rel_attn.{their_name}", f"{google}/{their_name}"
        rows.append(Weight(f"{LAYER}/attention/{name}", shape, *names))
    norm = f"{theirs}.rel_attn.layer_norm", f"{google}/rel_attn/LayerNorm"
    return [
        *rows,
        *layer_norm(f"{LAYER}/attention_layer_norm", width, *norm),
        *dense(f"{LAYER}/intermediate_dense", width, inner, f"{theirs}.ff.layer_1", f"{google}/ff/layer_1"),
        *dense(f"{LAYER}/output_dense", inner, width, f"{theirs}.ff.layer_2", f"{google}/ff/layer_2"),
        *layer_norm(f"{LAYER}/output_layer_norm", width, f"{theirs}.ff.layer_norm", f"{google}/ff/LayerNorm"),
    ]


FAMILY = Family(
    defaults={"vocab_size": 32000, "do_lower_case": False},
    sizes={"xlnet-base": size(12, 768, 12), "xlnet-large": size(24, 1024, 16)},
    tokenizer=SENTENCE_PIECE,
    predicts_from_queries=True,
    config="keras_bert.encoders.xlnet.config.XLNetConfig",
    encoder="keras_bert.encoders.xlnet.encoder.XLNetEncoder",
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(
        classes="XLNet",
        prefix="transformer",
        poolers={
            form.CLASSIFIER: ("sequence_summary.summary",),
            "choice_scorer": ("sequence_summary.summary",),
        },
        outputs={form.CLASSIFIER: "logits_proj", "choice_scorer": "logits_proj"},
        renamed={"ForMaskedLM": "LMHeadModel", "ForQuestionAnswering": "ForQuestionAnsweringSimple"},
        pooler_act_heads=None,
        first_token_is_last=True,
        keys=files.KEYS,
        defaults={
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
        },
        more=KnownKeys(
            used=("d_head",),
            harmless=(
                *("mem_len", "reuse_len", "use_mems_eval", "use_mems_train", "start_n_top", "end_n_top", "untie_r"),
                *("summary_last_dropout", "summary_first_dropout", "init", "init_range", "init_std", "dropatt"),
            ),
            fixed=files.FIXED,
        ),
        read=files.of_theirs,
        write=lambda values, checkpoint: {name: value for name, value in values.items() if name != "type_vocab_size"},
    ),
    google=Google(
        sign=r"model/transformer/layer_\d+/rel_attn/.*",
        more=KnownKeys(used=(*files.KEYS, "n_token", "d_head"), harmless=("untie_r",), fixed=files.FIXED),
        read=files.of_google,
        write=files.to_google,
        divided=files.divided,
        joined=files.joined,
    ),
)
