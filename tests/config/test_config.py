import dataclasses
import json

import pytest

from keras_bert.config import SIZES, BertConfig
from keras_bert.program.errors import InputError


def test_published_sizes_have_their_published_shapes():
    base = BertConfig.from_size("base", vocab_size=30522)
    assert (base.num_hidden_layers, base.hidden_size, base.num_attention_heads) == (12, 768, 12)
    assert (base.intermediate_size, base.max_position_embeddings, base.type_vocab_size) == (3072, 512, 2)
    large = BertConfig.from_size("large", vocab_size=30522)
    assert (large.num_hidden_layers, large.hidden_size, large.num_attention_heads) == (24, 1024, 16)
    assert large.intermediate_size == 4096
    assert set(SIZES) == {"tiny", "mini", "small", "medium", "base", "large"}
    assert all(BertConfig.from_size(size, vocab_size=100).head_size == 64 for size in SIZES)


def test_unknown_size_is_refused_and_the_known_ones_are_named():
    with pytest.raises(InputError, match=r"Unknown model size 'huge'. Use one of: tiny, mini, small, medium, base"):
        BertConfig.from_size("huge", vocab_size=100)


def test_google_config_files_are_read(shared_data):
    micro = BertConfig.from_json_file(shared_data("checkpoints", "google_tf1_micro", "bert_config.json"))
    assert (micro.num_hidden_layers, micro.hidden_size) == (2, 4)
    chinese = BertConfig.from_json_file(shared_data("checkpoints", "google_tf1_chinese_index_only", "bert_config.json"))
    assert chinese.vocab_size == 21128
    assert chinese.extra["directionality"] == "bidi"


def test_unknown_keys_survive_reading_and_writing(tmp_path):
    path = tmp_path / "bert_config.json"
    path.write_text(json.dumps({"vocab_size": 10, "hidden_size": 8, "num_attention_heads": 2, "pooler_type": "first"}))
    config = BertConfig.from_json_file(path)
    config.save(tmp_path / "again.json")
    written = json.loads((tmp_path / "again.json").read_text())
    assert written["pooler_type"] == "first"
    assert BertConfig.from_json_file(tmp_path / "again.json") == config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 10, "num_attention_heads": 3}, "hidden_size must be divisible by num_attention_heads"),
        ({"hidden_act": "swish"}, "hidden_act must be one of gelu, gelu_erf"),
    ],
)
def test_nonsense_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        BertConfig(**{"vocab_size": 10, **change})


def test_a_file_that_is_no_config_is_refused(tmp_path):
    with pytest.raises(InputError, match="There is no config file"):
        BertConfig.from_json_file(tmp_path / "missing.json")
    path = tmp_path / "bert_config.json"
    for content, message in [
        ("", "is not JSON"),
        ("[1]", "must hold one JSON object. Received: list"),
        ('{"hidden_size": 4}', "has no vocab_size"),
    ]:
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            BertConfig.from_json_file(path)


def test_config_cannot_be_changed_in_place():
    extra = {"note": "first"}
    config = BertConfig(vocab_size=10, extra=extra)
    extra["note"] = "second"
    assert config.extra["note"] == "first"
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.vocab_size = 11
    assert config.replace(vocab_size=11).vocab_size == 11
