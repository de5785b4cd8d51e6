"""Tokenizers of BERT's relatives: special tokens, words, and the files of folders."""

import json

import pytest
from tiny_families import IDS, MERGES, SPECIAL, byte_pairs, new, word_pieces

from keras_bert import BytePairTokenizer, InputError, SpanClassifier, load_vocabulary
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.tasks.question_answering.rows import WindowOptions, make_windows
from keras_bert.tasks.text_rows import text_rows
from keras_bert.tokenization.token_lists import PythonForm

pytestmark = pytest.mark.usefixtures("without_graphs")


def test_a_pair_has_the_special_tokens_of_its_family():
    tokenizer = byte_pairs().graph()
    rows, is_cut, _ = text_rows(["the", "fox fox fox"], ["dog", "the dog"], tokenizer, 9)
    rows = rows.padded(9)
    assert [[tokenizer.vocabulary.tokens[number] for number in row] for row in rows["input_ids"]] == [
        ["<s>", "the", "</s>", "</s>", "do" + "g", "</s>", "<pad>", "<pad>", "<pad>"],
        ["<s>", "fo" + "x", "Ġfox", "Ġfox", "</s>", "</s>", "the", "Ġdog", "</s>"],
    ]
    assert rows["input_mask"].sum(axis=1).tolist() == [6, 9]
    assert is_cut.tolist() == [False, False]


def test_windows_of_a_context_have_two_separators():
    options = WindowOptions(8, 2, 3, num_special=4)
    windows = make_windows(["fox"], ["the dog the dog"], byte_pairs().graph(), options)
    tokens = byte_pairs().tokens
    batch = windows.rows.padded(8)
    rows = zip(batch["input_ids"], batch["input_mask"], strict=True)
    assert [[tokens[number] for number in row[mask > 0]] for row, mask in rows] == [
        ["<s>", "fox", "</s>", "</s>", "the", "Ġdog", "Ġthe", "</s>"],
        ["<s>", "fox", "</s>", "</s>", "Ġthe", "Ġdog", "</s>"],
    ]
    assert windows.first_column.tolist() == [4, 4]


def test_a_byte_pair_tagger_reads_every_word_as_inside_of_a_text():
    tokenizer = byte_pairs()
    rows = tokenizer.graph().tokenize_words(["the", "fox", ",", ""]).to_list()
    assert rows == [tokenizer.encode(" the"), tokenizer.encode(" fox"), tokenizer.encode(" ,"), []]


def test_a_question_without_a_token_gets_no_answer():
    model = new(SpanClassifier, "distilbert")
    assert not model.predict((["\x00"], ["the fox"]))[0].has_answer


def test_the_space_before_a_mask_belongs_to_it():
    from keras_bert.tasks.masked_lm.masked_texts import masked_rows, put_tokens

    tokenizer = byte_pairs()
    (row,) = masked_rows(["the <mask> fox"], PythonForm(tokenizer), 16)
    assert [tokenizer.tokens[number] for number in row.ids] == ["<s>", "the", "<mask>", "Ġfox", "</s>"]
    assert row.starts == (4,)
    assert put_tokens("the <mask> fox", [tokenizer.ids["Ġdog"]], tokenizer) == "the dog fox"
    assert put_tokens("the <mask> fox", [None], tokenizer) == "the <mask> fox"


@pytest.mark.parametrize("format", ["keras_bert", "huggingface"])
def test_a_folder_keeps_the_tokenizer(tmp_path, format):
    encoder = new(BertEncoder, "roberta")
    encoder.vocabulary = byte_pairs(add_prefix_space=True)
    encoder.save_pretrained(tmp_path / "model", format=format)
    again = BertEncoder.from_pretrained(tmp_path / "model")
    assert isinstance(again.vocabulary, BytePairTokenizer)
    assert again.vocabulary.encode("the fox") == encoder.vocabulary.encode(" the fox")
    assert again.vocabulary.sha256 == encoder.vocabulary.sha256
    assert again.config.replace(extra={}) == encoder.config


ROBERTA = {"config.json": {"model_type": "roberta"}}
ROBERTA["tokenizer_config.json"] = {"tokenizer_class": "RobertaTokenizer"}
WORD_PIECES = "".join(f"{token}\n" for token in word_pieces().tokens)


def write(folder, files):
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return folder


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"vocab.json": IDS}, "there is .*vocab.json, but no .*merges.txt"),
        ({"merges.txt": "t h\n"}, "there is .*merges.txt, but no .*vocab.json"),
        ({"vocab.json": IDS, "merges.txt": "q z\n"}, "contains or creates the token 'qz', which is not in the vocab"),
        ({"vocab.json": IDS | {"more": len(IDS) + 1}, "merges.txt": "t h\n"}, "must be 0 to .*'more' has id"),
        ({}, "has no vocabulary. Expected: vocab.txt"),
        (
            ROBERTA | {"vocab.txt": WORD_PIECES},
            "is 'RobertaTokenizer', which tokenises differently from what the other",
        ),
    ],
)
def test_a_folder_without_a_usable_tokenizer_is_refused(tmp_path, files, message):
    with pytest.raises(InputError, match=f"(?i){message}"):
        load_vocabulary(write(tmp_path / "folder", files))


def test_a_file_of_a_gigabyte_is_not_read(tmp_path):
    for name, folder, load in (
        (
            "vocab.json",
            write(tmp_path / "1", {"vocab.json": IDS, "merges.txt": "t h\n"}),
            BytePairTokenizer.from_folder,
        ),
        ("vocab.txt", write(tmp_path / "2", {"vocab.txt": ""}), load_vocabulary),
    ):
        with open(folder / name, "r+b") as file:
            file.truncate(1 << 30)
        with pytest.raises(InputError, match="has more than 50,331,648 bytes"):
            load(folder)


def tokenizer_json(**changes):
    """The file that transformers 5 writes for a RoBERTa, shortened."""
    model = {"type": "BPE", "dropout": None, "continuing_subword_prefix": "", "end_of_word_suffix": ""}
    model |= {"vocab": IDS, "merges": [list(pair) for pair in MERGES]}
    splitter = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    added = [{"id": IDS[name], "content": name, "lstrip": name == "<mask>"} for name in SPECIAL]
    values = {"added_tokens": added, "normalizer": None, "pre_tokenizer": splitter, "model": model}
    return {**values, **changes}


@pytest.mark.parametrize(
    ("settings", "prefix"),
    [
        # As transformers 5.24.0 reads them; so does 4.57.6, but for PreTrainedTokenizerFast.
        ({"tokenizer_class": "RobertaTokenizer"}, False),
        ({"tokenizer_class": "GPT2TokenizerFast", "add_prefix_space": True}, True),
        ({}, False),  # the model is a RoBERTa
        ({"add_prefix_space": True}, True),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, True),
        ({"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": False}, True),
    ],
)
def test_the_settings_of_a_roberta_s_class_come_before_its_tokenizer_json(settings, prefix, tmp_path):
    folder = write(
        tmp_path / "model", ROBERTA | {"tokenizer.json": tokenizer_json(), "tokenizer_config.json": settings}
    )
    assert load_vocabulary(folder).sha256 == byte_pairs(add_prefix_space=prefix).sha256


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pre_tokenizer": {"type": "Metaspace"}}, "the pre_tokenizer is .*Metaspace.* Only ByteLevel is supported"),
        ({"model": {"type": "Unigram"}}, "tokenizer_class is 'RobertaTokenizer', which tokenises differently"),
        ({"normalizer": {"type": "NFKC"}}, "normalizer would change the tokens: .*NFKC"),
        ({"model": {**tokenizer_json()["model"], "merges": [["t"]]}}, "a merge must be two tokens"),
        ({"added_tokens": [{"id": "x", "content": "<s>"}]}, "id of added_tokens"),
    ],
)
def test_another_tokenizer_json_is_refused_by_its_part(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        load_vocabulary(write(tmp_path / "model", ROBERTA | {"tokenizer.json": tokenizer_json(**changes)}))
