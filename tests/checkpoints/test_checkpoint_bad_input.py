"""Errors in a checkpoint are reported in one clear line, and no partial output is left."""

import json

import pytest
from tiny_checkpoints import CONFIG, assert_same_tensors, change_json, random_checkpoint, write_arrays

from keras_bert import registry
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints import what_instead
from keras_bert.checkpoints.conversion import convert_checkpoint
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.checkpoints.safetensors_file import read_safetensors
from keras_bert.program.errors import InputError

LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:53aa5117\nsize 90868376\n"
WEIGHTS = {
    "huggingface": "model.safetensors",
    "google": "bert_model.ckpt.data-00000-of-00001",
    "keras_bert": "model.weights.h5",
}


@pytest.fixture
def hugging_face(tmp_path):
    write_checkpoint(random_checkpoint(form.MASKED_LM), tmp_path / "hf", "huggingface")
    return tmp_path / "hf"


def rewrite(folder, change):
    """Writes model.safetensors again with other names, or without some."""
    tensors = read_safetensors(folder / "model.safetensors")
    write_arrays(folder, change({name: tensor.read().copy() for name, tensor in tensors.items()}))


@pytest.mark.parametrize(
    ("format", "name"),
    [
        *WEIGHTS.items(),
        ("google", "bert_model.ckpt.index"),
        ("google", "bert_config.json"),
        ("google", "vocab.txt"),
        ("keras_bert", "vocab.txt"),
        ("huggingface", "config.json"),
        ("huggingface", "tokenizer.json"),
        ("huggingface", "tokenizer_config.json"),
        ("huggingface", "pytorch_model.bin"),
        ("huggingface", "model.safetensors.index.json"),
    ],
)
def test_pointers_of_git_lfs_are_called_that(format, name, tmp_path):
    write_checkpoint(random_checkpoint(), tmp_path / "folder", format)
    if "model." in name and format == "huggingface":
        (tmp_path / "folder" / "model.safetensors").unlink()
    (tmp_path / "folder" / name).write_bytes(LFS_POINTER)
    with pytest.raises(InputError, match=f"{name} is a git-lfs pointer, not the .*git lfs pull"):
        convert_checkpoint(tmp_path / "folder", tmp_path / "output", "google")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


def test_a_part_of_a_sharded_checkpoint_that_is_missing_or_a_pointer_is_named(hugging_face, tmp_path):
    part = hugging_face / "model-00001-of-00001.safetensors"
    weights = (hugging_face / "model.safetensors").rename(part).read_bytes()
    index = {"weight_map": dict.fromkeys(read_safetensors(part), part.name)}
    (hugging_face / "model.safetensors.index.json").write_text(json.dumps(index))
    assert len(read_checkpoint(hugging_face).tensors) == 44
    for content, message in (
        (LFS_POINTER, "is a git-lfs pointer"),
        (weights[:-8], "cut off|damaged"),
        (None, "There is no file"),
    ):
        part.unlink() if content is None else part.write_bytes(content)
        with pytest.raises(InputError, match=message) as caught:
            convert_checkpoint(hugging_face, tmp_path / "output", "google")
        assert part.name in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["hf"]


@pytest.mark.parametrize(("format", "name"), [*WEIGHTS.items(), ("google", "bert_model.ckpt.index")])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.99])
def test_files_that_are_cut_off_are_called_that(format, name, kept, tmp_path):
    folder = tmp_path / "folder"
    write_checkpoint(random_checkpoint(form.MASKED_LM, form.NEXT_SENTENCE), folder, format)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(kept * len(content))])
    with pytest.raises(InputError, match="is damaged|cut off|only its first|is incomplete"):
        [tensor.read() for tensor in read_checkpoint(folder).tensors.values()]
    with pytest.raises(InputError):
        convert_checkpoint(folder, tmp_path / "output", "google")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    ("name", "other", "message"),
    [
        ("layer.1.output", None, "is incomplete: 4 of .* are missing: encoder/layer_1/output_dense/kernel"),
        ("transform.LayerNorm", None, "2 of .* are missing: masked_lm_head/layer_norm/gamma"),  # of a head
        ("query", "q", "are missing: encoder/layer_0/attention/query/kernel"),
        ("embeddings", None, "holds no BERT: bert.embeddings.word_embeddings.weight is missing"),
    ],
)
def test_missing_and_renamed_tensors_are_named(hugging_face, name, other, message):
    def change(arrays):
        kept = {key: array for key, array in arrays.items() if other or name not in key}
        return {key.replace(name, other or name): array for key, array in kept.items()}

    rewrite(hugging_face, change)
    with pytest.raises(InputError, match=message):
        read_checkpoint(hugging_face)


OTHER_CONFIGS = [
    ({"num_hidden_layers": 1}, "has more weights than a model with num_hidden_layers=1: encoder/"),
    ({"hidden_size": 12}, r"has the shape \[10, 8\], but its config requires \[10, 12\]"),
    ({"intermediate_size": 20}, r"has the shape \[8, 16\], but its config requires \[8, 20\]"),
    ({"type_vocab_size": 3}, r"has the shape \[2, 8\], but its config requires \[3, 8\]"),
    ({"num_hidden_layers": 3}, "are missing: encoder/layer_2/"),
]


@pytest.mark.parametrize(
    ("format", "change", "message"),
    [
        *((format, *case) for format in WEIGHTS for case in OTHER_CONFIGS),
        *(
            ("huggingface", *case)
            for case in [
                ({"max_position_embeddings": 64}, r"has the shape \[12, 8\], but its config requires \[64, 8\]"),
                ({"vocab_size": 11}, "the vocabulary has 10 tokens, but the config has vocab_size=11"),
                ({"hidden_act": "mish"}, "hidden_act is 'mish'. Supported: gelu"),
                ({"position_embedding_type": "relative_key"}, "position_embedding_type is .* Only 'absolute'"),
                ({"is_decoder": True}, "is_decoder is True, which would change the results"),
                ({"num_attention_heads": 3}, "hidden_size must be divisible by num_attention_heads"),
                ({"hidden_size": "wide"}, "hidden_size must be a whole number .* Received: 'wide'"),
                ({"model_type": "gpt2"}, "model_type is 'gpt2', which keras_bert does not have"),
                # What is near, if the family is not there.
                ({"model_type": "deberta"}, "of the first version, .* is missing. Near: deberta-v3-base. Use a"),
                ({"model_type": "roformer"}, "rotary encoder is missing. Near: ModernBERT and all-mpnet-base-v2 for"),
                ({"model_type": "qwen3"}, "from left to right and is no encoder. Near: ModernBERT"),
                ({"model_type": "xlm_roberta"}, r"does not have: did you mean 'xlm-roberta'\?. Use a .* of: bert"),
                ({"model_type": "vit"}, "'vit', which keras_bert does not have. Use a checkpoint of: bert"),
            ]
        ),
    ],
)
def test_a_config_of_another_model_is_refused(format, change, message, tmp_path):
    write_checkpoint(random_checkpoint(form.MASKED_LM), tmp_path / "folder", format)
    change_json(tmp_path / "folder" / ("config.json" if format == "huggingface" else "bert_config.json"), **change)
    with pytest.raises(InputError, match=message):
        convert_checkpoint(tmp_path / "folder", tmp_path / "output", "huggingface")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


def test_a_tensorflow_checkpoint_of_another_model_is_refused(tmp_path):
    import tensorflow as tf

    CONFIG.save(tmp_path / "bert_config.json")
    tf.train.Checkpoint(weight=tf.Variable(1.0)).write(str(tmp_path / "model.ckpt"))
    with pytest.raises(InputError, match="model.ckpt holds no BERT"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", "\u00ff"])
def test_a_damaged_config_is_refused(hugging_face, content):
    (hugging_face / "config.json").write_text(content, encoding="latin-1")
    with pytest.raises(InputError, match="config.json (is not JSON|must hold one JSON object)"):
        read_checkpoint(hugging_face)


def test_a_missing_config_and_missing_weights_are_named(hugging_face, tmp_path):
    (hugging_face / "model.safetensors").rename(hugging_face / "rust_model.ot")
    folder = hugging_face.rename(tmp_path / "model [rust]")
    with pytest.raises(InputError, match="none of .* and tf_model.h5. .* rust_model.ot cannot be read"):
        read_checkpoint(folder)
    write_checkpoint(random_checkpoint(), tmp_path / "google", "google")
    (tmp_path / "google" / "bert_config.json").unlink()
    with pytest.raises(InputError, match="There is no config file .*bert_config.json"):
        read_checkpoint(tmp_path / "google")


@pytest.mark.parametrize("has_config", [True, False])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bert-q8_0.gguf", "llama.cpp's format, .* Give the folder of the model that it was made from"),
        ("flax_model.msgpack", "Flax classes, .* from_flax=True"),
        ("model.onnx", "an exported graph, .* Give the folder of the model that was exported"),
        ("onnx/model_quantized.onnx", "no weights but 'onnx/model_quantized.onnx': an exported graph"),
        ("adapter_model.safetensors", "the base model 'a/b' is not a folder on this machine. Give base=, its folder"),
    ],
)
def test_a_folder_with_weights_of_another_library_only_is_told_a_way_out(hugging_face, has_config, name, message):
    (hugging_face / name).parent.mkdir(exist_ok=True)
    (hugging_face / "model.safetensors").rename(hugging_face / name)
    if name.startswith("adapter"):
        (hugging_face / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "a/b"}')
    if not has_config:
        (hugging_face / "config.json").unlink()
    with pytest.raises(InputError, match=message) as raised:
        read_checkpoint(hugging_face)
    assert "\n" not in str(raised.value)


def test_a_family_that_can_be_read_is_not_said_to_be_missing():
    assert not what_instead._NEAR.keys() & registry.FAMILIES.keys()


def test_a_missing_vocabulary_is_said_and_does_no_harm(hugging_face, tmp_path, capsys):
    from keras_bert.encoders.bert.encoder import BertEncoder

    for name in ("vocab.txt", "tokenizer.json"):
        (hugging_face / name).unlink()
    encoder = BertEncoder.from_pretrained(hugging_face)
    assert encoder.vocabulary is None
    assert "note: there is no vocabulary" in capsys.readouterr().out
    lines = convert_checkpoint(hugging_face, tmp_path / "google", "google")
    assert "note: there is no vocabulary, so the model takes token ids but no texts" in lines
    assert "note: there is no vocabulary, so the model takes token ids but no texts" in convert_checkpoint(
        tmp_path / "google", tmp_path / "ours"
    )


def test_several_checkpoints_in_a_folder_must_be_told_apart(tmp_path):
    write_checkpoint(random_checkpoint(), tmp_path / "folder", "google")
    for file in list((tmp_path / "folder").glob("*.ckpt.*")):
        (tmp_path / "folder" / file.name.replace("bert_model", "later")).write_bytes(file.read_bytes())
    with pytest.raises(InputError, match="has several checkpoints. Give one of: .*bert_model.ckpt, .*later.ckpt"):
        read_checkpoint(tmp_path / "folder")
    assert_same_tensors(read_checkpoint(tmp_path / "folder" / "later.ckpt"), random_checkpoint())


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere", r"^nowhere: there is no such folder. A model .* hub is named hf://owner/nowhere.$"),
        ("bert-base-uncased", "no such folder. A model .* is named hf://google-bert/bert-base-uncased.$"),
        ("owner/model", "no such folder. A model .* is named hf://owner/model.$"),
        ("./no/such/place", "^./no/such/place: there is no such folder.$"),
        ("hf/config.json", "it is a file. Give its folder"),
        ("hf://bert", "is not the name of a model. Expected: hf://owner/name"),
    ],
)
def test_what_is_no_checkpoint_is_refused(hugging_face, path, message, monkeypatch):
    monkeypatch.chdir(hugging_face.parent)
    with pytest.raises(InputError, match=message):
        read_checkpoint(path)
