"""Every reader of a foreign folder refuses an unknown key by its name, in each of its JSON files."""

import json
import shutil

import pytest
from checkpoints.test_checkpoints_of_other_keras import checkpoint_of, write_preset
from places import TESTS
from tiny_checkpoints import CONFIG, VOCABULARY, change_json, random_checkpoint
from tiny_families import config_of

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.checkpoints.hugging_face_config import config_from, known_keys
from keras_bert.checkpoints.hugging_face_tokenizer import read_tokenizer
from keras_bert.config import BertConfig
from keras_bert.encoders.transformer_xl.files import _KNOWN as TRANSFORMER_XL_KEYS
from keras_bert.encoders.transformer_xl.model import TransformerXL
from keras_bert.program.errors import InputError
from keras_bert.registry import family
from keras_bert.tasks.embedding.model import SentenceEncoder
from keras_bert.tasks.ranking.model import CrossEncoder
from keras_bert.tasks.text_to_text.model import TextToText
from keras_bert.tokenization.byte_pair import BytePairTokenizer, byte_alphabet
from keras_bert.tokenization.stream_vocabulary import StreamVocabulary
from keras_bert.tokenization.tokenizer import BERT_SPECIAL_TOKENS


def save(model, folder, format, vocabulary=VOCABULARY):
    model.save_pretrained(folder, vocabulary, format=format)


def sentence_encoder(folder, format="huggingface"):
    model = SentenceEncoder(CONFIG, dense=[{"units": 3}], prompts={"query": "the "})
    save(model, folder, format)
    (folder / "3_Normalize" / "config.json").write_text("{}")


def preset(folder, task, *heads):
    preprocessor = {"class_name": f"{task}Preprocessor", "config": {"sequence_length": 6}}
    write_preset(
        folder, random_checkpoint(*heads, labels=("a", "b") if heads else None), task, preprocessor=preprocessor
    )


def static_model(folder):
    save(SentenceEncoder(BertConfig.static(len(VOCABULARY), 6), dense=[{"units": 3}]), folder, "huggingface")


def language_model(folder, format):
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "mem_len": 4}
    config = config_of("transfo-xl", vocab_size=4, embedding_size=8, **shape)
    save(TransformerXL(config), folder, format, StreamVocabulary(["<unk>", "<eos>", "a", "b"], "words"))


def written(format, family="bert", *heads):
    return lambda folder: write_checkpoint(checkpoint_of(family, *heads), folder, format)


FOLDERS = {
    "transformers": (
        written("huggingface"),
        [
            *("config.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"),
            *("tokenizer.json:model", "tokenizer.json:normalizer", "tokenizer.json:pre_tokenizer"),
            *("tokenizer.json:post_processor", "tokenizer.json:added_tokens"),
        ],
    ),
    "albert": (written("huggingface", "albert"), ["config.json"]),
    "sentence-transformers": (
        sentence_encoder,
        [
            *("config.json", "modules.json", "1_Pooling/config.json", "2_Dense/config.json", "3_Normalize/config.json"),
            *("sentence_bert_config.json", "config_sentence_transformers.json"),
        ],
    ),
    "cross-encoder": (
        lambda folder: save(CrossEncoder(CONFIG), folder, "huggingface"),
        [
            *("config.json", "config.json:sentence_transformers", "modules.json", "sentence_bert_config.json"),
            "config_sentence_transformers.json",
        ],
    ),
    "static embedding": (
        static_model, ["modules.json", "1_Dense/config.json", "config_sentence_transformers.json"],
    ),
    "encoder-decoder": (
        lambda folder: save(TextToText(CONFIG), folder, "huggingface"),
        ["config.json", "config.json:encoder", "config.json:decoder"],
    ),
    "transformer-xl": (lambda folder: language_model(folder, "huggingface"), ["config.json"]),
    "official transformer-xl": (lambda folder: language_model(folder, "google"), ["config.json"]),
    "google": (written("google"), ["bert_config.json"]),
    "google albert": (written("google", "albert"), ["albert_config.json"]),
    "google electra": (written("google", "electra"), ["electra_config.json"]),
    "keras_hub": (
        lambda folder: preset(folder, "BertTextClassifier", form.CLASSIFIER),
        [
            *("config.json", "config.json:config", "tokenizer.json", "tokenizer.json:config", "task.json"),
            *("task.json:config", "task.json:config.preprocessor.config"),
        ],
    ),
    "keras_hub embedder": (lambda folder: preset(folder, "BertTextEmbedder"), ["task.json:config"]),
}  # fmt: skip


def byte_pair(folder):
    names = [*byte_alphabet(), *BERT_SPECIAL_TOKENS.names, "  "]
    ids = {token: number for number, token in enumerate(names)}
    BytePairTokenizer(ids, [], BERT_SPECIAL_TOKENS, normalizes=True, added_tokens=("  ",)).save(folder)


def unigram(folder):
    pieces = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "▁a", "▁", "a"]
    steps = [{"type": kind} for kind in ("NFKD", "StripAccents", "Lowercase")]
    values = {
        "added_tokens": [{"id": 1, "content": "<unk>", "special": True}],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "model": {"type": "Unigram", "unk_id": 1, "vocab": [[piece, -1.0] for piece in pieces]},
    }
    (folder / "tokenizer.json").write_text(json.dumps(values))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "AlbertTokenizer"}))


@pytest.mark.parametrize(
    ("write", "place"),
    [
        *((byte_pair, place) for place in ("model", "pre_tokenizer", "post_processor", "added_tokens", "", None)),
        *((unigram, place) for place in ("model", "pre_tokenizer", "post_processor", "added_tokens", "", None)),
        (unigram, "normalizer.normalizers"),
    ],
)
def test_an_unknown_key_of_a_tokenizer_is_refused_by_name(write, place, tmp_path):
    write(tmp_path)
    size = len(read_tokenizer(tmp_path, 262 if write == byte_pair else 8)[0])
    file = tmp_path / ("tokenizer_config.json" if place is None else "tokenizer.json")
    with_new_setting(file, place or "")
    with pytest.raises(InputError, match="settings that keras_bert does not know .*'new_setting'=7"):
        read_tokenizer(tmp_path, size)


@pytest.mark.parametrize("change", [{"prepend_scheme": "never"}, {"replacement": "_"}, {"add_prefix_space": False}])
def test_a_splitter_that_cuts_otherwise_is_refused(change, tmp_path):
    unigram(tmp_path)
    pre_tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())["pre_tokenizer"]
    change_json(tmp_path / "tokenizer.json", pre_tokenizer=pre_tokenizer | change)
    with pytest.raises(InputError, match=f"{next(iter(change))} is .* which would change the results"):
        read_tokenizer(tmp_path, 8)


def with_new_setting(file, part):
    values = inner = json.loads(file.read_text())
    for name in filter(None, part.split(".")):
        inner = inner[name]
    (inner[0] if isinstance(inner, list) else inner)["new_setting"] = 7
    file.write_text(json.dumps(values))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Returns the folder of a kind, which is written once."""
    made = {}

    def folder_of(kind):
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("folders") / "folder"
            FOLDERS[kind][0](made[kind])
            read_checkpoint(made[kind])
        return made[kind]

    return folder_of


@pytest.mark.parametrize(
    ("kind", "place"), [(kind, place) for kind, (_, places) in FOLDERS.items() for place in places]
)
def test_an_unknown_key_is_refused_by_name(kind, place, folders, tmp_path):
    folder = shutil.copytree(folders(kind), tmp_path / "folder")
    file, _, part = place.partition(":")
    with_new_setting(folder / file, part)
    with pytest.raises(InputError, match="settings that keras_bert does not know .*'new_setting'=7"):
        read_checkpoint(folder)


def test_unknown_keys_of_a_file_that_a_static_model_does_not_need_are_noted(tmp_path):
    static_model(tmp_path / "folder")
    (tmp_path / "folder" / "config.json").write_text('{"apply_pca": 256, "new_setting": 7}')
    assert read_checkpoint(tmp_path / "folder").remarks[-1].endswith("not used: 'new_setting'=7")


def test_settings_for_writing_texts_are_noted(tmp_path):
    save(TextToText(CONFIG), tmp_path / "folder", "huggingface")
    file = tmp_path / "folder" / "generation_config.json"
    change_json(file, num_beams=4, transformers_version="5.0")
    found = read_checkpoint(tmp_path / "folder").remarks
    assert "the folder has settings that are not used: 'num_beams'=4" in found
    change_json(file, decoder_start_token_id=5)
    with pytest.raises(InputError, match="texts begin with the token 5 .* Only .CLS., 2, and .SEP., 3, are supported"):
        read_checkpoint(tmp_path / "folder")


# Name of a published model -> its model type, and keys of its config.json. Those of NeoBERT are also what the code of
# its training writes.
PUBLISHED = json.loads((TESTS / "checkpoints" / "published_keys.json").read_text("utf-8"))
_, EVERYWHERE = PUBLISHED.pop("every file of transformers")
_, TRANSFORMER_XL = PUBLISHED.pop("transformer-xl")


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_keys_of_published_files_are_known(name):
    model_type, values = PUBLISHED[name]
    known = known_keys(family(model_type))
    known.check({**EVERYWHERE, **values}, "config.json")
    with pytest.raises(InputError, match="settings that keras_bert does not know .*'new_setting'=7"):
        known.check({**EVERYWHERE, **values, "new_setting": 7}, "config.json")


def test_the_keys_of_the_published_transformer_xl_are_known():
    TRANSFORMER_XL_KEYS.check(TRANSFORMER_XL, "config.json")


NOMIC = {"n_embd": 8, "n_head": 2, "n_layer": 1, "n_inner": 12, "vocab_size": 30, "activation_function": "swiglu"}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ({"n_positions": 8192}, 8192),
        ({"n_positions": 8192, "max_position_embeddings": 2048}, 2048),
        ({"n_positions": 8192, "max_trained_positions": 2048}, 8192),
        # Dynamic scaling changes the positions of rows beyond the training's only.
        ({"n_positions": 8192, "rotary_scaling_factor": 2, "max_trained_positions": 1024}, 1024),
        ({"n_positions": 8192, "rotary_scaling_factor": 1}, 2048),
        ({"n_positions": 512, "rotary_scaling_factor": 2}, 512),
        ({"n_positions": 8192, "rotary_scaling_factor": None, "max_position_embeddings": None}, 8192),
    ],
)
def test_the_longest_row_of_a_nomic_does_not_depend_on_the_order_of_its_keys(lengths, expected, turned):
    values = {"model_type": "nomic_bert", **NOMIC, **lengths}
    values = dict(reversed(values.items())) if turned else values
    assert config_from("folder", values).max_position_embeddings == expected


def test_a_nomic_with_geglu_is_gated_by_gelu():
    assert config_from("folder", {"model_type": "nomic_bert", **NOMIC}).hidden_act == "silu"
    values = {"model_type": "nomic_bert", **NOMIC, "activation_function": "geglu"}
    assert config_from("folder", values).hidden_act == "gelu_erf"


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("nomic_bert", {"num_experts": 8}, "num_experts is 8: some of its feed-forward parts are mixtures"),
        ("nomic_bert", {"rotary_emb_scale_base": 512}, "rotary_emb_scale_base is 512, .* Only null, or a file without"),
        ("nomic_bert", {"activation_function": "glu"}, "hidden_act is 'glu'. Supported: gelu"),
        ("nomic_bert", {"layer_norm_epsilon": 1e-5, "layer_norm_eps": 1e-12}, "is 1e-12, but layer_norm_epsilon"),
        ("neobert", {"rms_norm": False}, "rms_norm is False"),
        ("neobert", {"hidden_act": "gelu"}, "hidden_act is 'gelu', which would change the results. Only 'silu'"),
        ("modernbert", {"position_embedding_type": "alibi"}, "position_embedding_type is 'alibi'"),
        ("bert", {"quantization": {"bits": 4}}, "quantization is .*: its weights are quantised"),
        ("bert", {"quantization_config": {"bits": 4}}, "quantization_config is .*: its weights are quantised"),
        ("bert", {"auto_map": {"AutoModel": "modeling.X"}}, "auto_map is .*: the model is computed by code in its"),
        ("bert", {"pruned_heads": {"0": [1]}}, "pruned_heads is "),
        ("bert", {"tokenizer_class": "BertJapaneseTokenizer"}, "tokenizer_class is 'BertJapaneseTokenizer'"),
        ("bert", {"problem_type": "ranking"}, "problem_type is 'ranking'"),
        ("bert", {"adapters": {"adapters": {"a": 1}}}, "adapters is "),
    ],
)
def test_settings_of_a_family_that_change_the_results_are_refused(family, changes, message):
    base = NOMIC if family == "nomic_bert" else {}
    with pytest.raises(InputError, match=message):
        config_from("folder", {"model_type": family, **base, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"summary_type": "mean"}, "summary_type is 'mean', .* Only 'first'"),
        ({"summary_use_proj": False}, "summary_use_proj is False"),
        ({"summary_activation": None}, "summary_activation is None. Supported: gelu"),
    ],
)
def test_the_summary_of_an_electra_counts_for_multiple_choice_only(changes, message, tmp_path):
    for head in ("choice_scorer", form.CLASSIFIER):
        folder = tmp_path / head
        write_checkpoint(
            checkpoint_of("electra", head, hidden_act="gelu_erf", pooler_act="gelu_erf"), folder, "huggingface"
        )
        change_json(folder / "config.json", **changes)
    read_checkpoint(tmp_path / form.CLASSIFIER)
    with pytest.raises(InputError, match=message):
        read_checkpoint(tmp_path / "choice_scorer")


def test_the_activation_of_an_electra_for_multiple_choice_is_kept(tmp_path):
    checkpoint = checkpoint_of("electra", "choice_scorer", pooler_act="relu")
    write_checkpoint(checkpoint, tmp_path / "folder", "huggingface")
    assert json.loads((tmp_path / "folder" / "config.json").read_text())["summary_activation"] == "relu"
    assert read_checkpoint(tmp_path / "folder").config.pooler_act == "relu"
