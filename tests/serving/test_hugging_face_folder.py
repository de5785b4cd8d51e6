"""Hugging Face folders with an ONNX file give the model's numbers to programs that read only these files.

KERAS_BERT_TRANSFORMERS_JS=/folder (with node_modules/@huggingface/transformers) enables the test in Node.
"""

import dataclasses
import json
import os
import shutil
import subprocess

import numpy as np
import onnxruntime
import pytest
from recorded_folders import recorded_folder
from slow_parameters import slow_except
from tiny_families import VOCABULARIES
from tiny_models import MODELS, NOT_PORTABLE, SECOND_TEXTS, TEXTS, make_model, new_model
from tokenizers import AddedToken, Tokenizer

from keras_bert.checkpoints.hugging_face_tokenizer import tokenizer_json
from keras_bert.models.base import NewParts
from keras_bert.program.errors import InputError
from keras_bert.tokenization.byte_pair import BytePairTokenizer
from keras_bert.tokenization.kinds import as_tokenizer, load_vocabulary
from keras_bert.tokenization.sentence_piece import SentencePieceTokenizer
from keras_bert.tokenization.sentence_piece_model import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Piece,
    SentencePieceModel,
)
from keras_bert.tokenization.tokenizer import BERT_SPECIAL_TOKENS, TokenTable
from run_scripts import export_model

pytestmark = [
    pytest.mark.usefixtures("without_graphs"),
    pytest.mark.filterwarnings("ignore:You are using a softmax over axis"),
]
FORMAT = "huggingface-onnx"
REFUSED = ("mobilebert", "neobert", "longformer", "big_bird", "xlnet")
FAMILIES = [family for family in VOCABULARIES if family not in REFUSED]
FAST = ["classifier", "span", "choice", "masked words", "encoder"]
TASKS = slow_except(FAST, [*FAST, "cross-encoder", "tagger", "pretrainer"])
OUTPUTS = {"encoder": ("last_hidden_state",), "span": ("start_logits", "end_logits")}


def rows_of(folder, *texts) -> dict[str, np.ndarray]:
    """The inputs of the ONNX file, from `tokenizer.json` and the settings in the folder."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    tokenizer.enable_truncation(settings["model_max_length"])
    tokenizer.enable_padding(pad_id=json.loads((folder / "config.json").read_text("utf-8"))["pad_token_id"])
    rows = tokenizer.encode_batch(list(zip(*texts, strict=True)) if len(texts) > 1 else texts[0])
    found = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    return {name: np.array([getattr(row, attribute) for row in rows]) for name, attribute in found.items()}


def run(file, inputs) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert {value.type for value in session.get_inputs()} == {"tensor(int64)"}
    names = [value.name for value in session.get_outputs()]
    kept = {value.name: inputs[value.name].astype("int64") for value in session.get_inputs()}
    return dict(zip(names, session.run(names, kept), strict=True))


def answers_of(model, rows) -> dict[str, np.ndarray]:
    """What the Keras model computes for the same rows, with the names of transformers."""
    names = {"input_ids": "input_ids", "input_mask": "attention_mask", "segment_ids": "token_type_ids"}
    features = {ours: rows[theirs] for ours, theirs in names.items() if ours in model.feature_names}
    if "masked_lm_positions" in model.feature_names:
        features["masked_lm_positions"] = np.tile(np.arange(rows["input_ids"].shape[1]), (len(rows["input_ids"]), 1))
    found = model(features)
    if not isinstance(found, dict):
        return {"logits": found}
    theirs = {"sequence_output": "last_hidden_state", "masked_lm_logits": "logits"}
    return {theirs.get(name, name): values for name, values in found.items()}


def check(model, name, folder, *texts) -> None:
    rows = rows_of(folder, *texts)
    if name == "choice":
        rows = {key: values.reshape(3, -1, values.shape[1]) for key, values in rows.items()}
    found, expected = run(folder / "onnx" / "model.onnx", rows), answers_of(model, rows)
    assert tuple(found) == OUTPUTS.get(name, ("logits",))
    is_token = rows["attention_mask"] > 0
    for output, values in found.items():
        kept = is_token if values.shape[: is_token.ndim] == is_token.shape else slice(None)
        np.testing.assert_allclose(values[kept], np.asarray(expected[output])[kept], rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("name", TASKS)
def test_onnx_runtime_computes_every_task_from_the_files_of_the_folder(name, tmp_path):
    model, folder = make_model(name), tmp_path / "out"
    assert model.export_for_serving(folder, format=FORMAT) == str(folder)
    check(model, name, folder, TEXTS)
    check(model, name, folder, TEXTS, SECOND_TEXTS)


@pytest.mark.parametrize("family", slow_except(["deberta-v2", "xlm-roberta"], FAMILIES))
def test_onnx_runtime_computes_every_family(family, tmp_path):
    name = "encoder" if family == "gemma3_text" else "classifier"
    changes = {"query_pre_attn_scalar": 6} if name == "encoder" else {}  # transformers has no default
    model = make_model(name, family, **changes)
    model.export_for_serving(tmp_path / "out", format=FORMAT)
    check(model, name, tmp_path / "out", ["the fox", "a dog, the dog", "who"])
    session = onnxruntime.InferenceSession(tmp_path / "out" / "onnx" / "model.onnx")
    names = [value.name for value in session.get_inputs()]
    assert ("token_type_ids" in names) == ("segment_ids" in model.feature_names)


def test_a_sentence_encoder_has_its_modules_and_prompts(tmp_path):
    model = make_model("sentence encoder")
    model.export_for_serving(tmp_path / "out", format=FORMAT)
    modules = json.loads((tmp_path / "out" / "modules.json").read_text())
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    assert kinds == ["Transformer", "Pooling", "Dense", "Normalize"]
    assert "the fox " in (tmp_path / "out" / "config_sentence_transformers.json").read_text()
    found = type(model).from_pretrained(tmp_path / "out")
    texts = ["the fox", "who is it"]  # in one window
    np.testing.assert_allclose(found.encode(texts), model.encode(texts), atol=1e-5)


@pytest.mark.parametrize(
    ("weights", "files"),
    [("int8", ["model_qint8_avx512_vnni.onnx", "model_quantized.onnx"]), ("float16", ["model_fp16.onnx"])],
)
def test_smaller_weights_have_the_names_that_programs_look_for(weights, files, tmp_path):
    model, folder = make_model("classifier"), tmp_path / "out"
    model.export_for_serving(folder, format=FORMAT, weights=weights)
    assert sorted(os.listdir(folder / "onnx")) == files
    rows = rows_of(folder, TEXTS)
    for file in files:
        found = run(folder / "onnx" / file, rows)["logits"]
        assert np.corrcoef(found.ravel(), np.asarray(answers_of(model, rows)["logits"]).ravel())[0, 1] > 0.98


FORMS = ["xlm-roberta", "camembert", "deberta-v2", "albert", "roberta", "modernbert", "mpnet", "bert"]
RECORDED = ["xlm-roberta", "camembert", "deberta-v2", "deberta-v2-v5", "gemma", "mpnet"]
WORDS = ["the fox, a dog", "fox(the) 1,000, 21, x", "  two  spaces ", "Größe ﬁnd 中文", "who?", ""]


@pytest.mark.parametrize("form", [*FORMS, *(f"recorded {name}" for name in RECORDED)])
def test_tokenizer_json_gives_the_same_ids_and_rows(form):
    if form in FORMS:
        tokenizer = make_model("classifier", form).tokenizer
    else:
        tokenizer = as_tokenizer(load_vocabulary(recorded_folder("tokenizers", form.removeprefix("recorded "))), True)
    other = Tokenizer.from_str(tokenizer_json(tokenizer))
    for text in WORDS:
        assert other.encode(text, add_special_tokens=False).ids == tokenizer.encode(text)
    special = tokenizer.special_tokens
    first, second = tokenizer.tokenize("the"), [*tokenizer.tokenize("fox"), special.sep]
    row = other.encode("the", "fox")
    before = [special.cls, *first, *[special.sep] * special.num_between]
    assert row.tokens == [*before, *second]
    segment = 0 if isinstance(tokenizer, BytePairTokenizer) else special.second_segment
    assert row.type_ids == [0] * len(before) + [segment] * len(second)
    assert other.encode(f"fox {special.mask}").ids[-2] == tokenizer.vocabulary.mask_id


def test_pieces_with_a_comma_behind_a_digit_are_divided_and_those_of_users_are_whole():
    usual = ["▁", *"12,ab(", "▁21,", "▁21", "▁a(b", "▁a"]
    pieces = [Piece(name, 0.0, CONTROL) for name in ("<pad>", "[CLS]", "[SEP]", "[MASK]")]
    pieces += [Piece("<unk>", 0.0, UNKNOWN), Piece("b(", 0.0, USER_DEFINED)]
    pieces += [Piece(text, -2.0, NORMAL) for text in usual]
    tokenizer = SentencePieceTokenizer(SentencePieceModel(tuple(pieces), b"").to_bytes())
    other = Tokenizer.from_str(tokenizer_json(tokenizer))
    for text, expected in (("21, a", ["▁21", ",", "▁a"]), ("ab(", ["▁a", "b("]), ("a(b(a", ["▁a", "(", "b(", "a"])):
        assert other.encode(text, add_special_tokens=False).tokens == expected == tokenizer.tokenize(text)


def test_the_files_of_a_tokenizer_say_the_longest_row_and_the_special_tokens(tmp_path):
    for family in ("mpnet", "xlm-roberta"):
        make_model("first token", family).export_for_serving(tmp_path / family, format=FORMAT)
        settings, names = (
            json.loads((tmp_path / family / name).read_text("utf-8"))
            for name in ("tokenizer_config.json", "special_tokens_map.json")
        )
        assert settings["model_max_length"] == 38  # 40 rows of the table, of which 2 are no positions
        assert names["pad_token"] == "<pad>"
        assert AddedToken(**names["mask_token"]).lstrip  # as fastembed makes it
    make_model("all poolings").export_for_serving(tmp_path / "short", format=FORMAT)
    assert json.loads((tmp_path / "short" / "tokenizer_config.json").read_text())["model_max_length"] == 24


class NoTokenizer(TokenTable):
    tokens, ids, special_tokens = VOCABULARIES["electra"].tokens, VOCABULARIES["electra"].ids, BERT_SPECIAL_TOKENS


def refused_model(kind: str):
    if kind in MODELS or kind in NOT_PORTABLE:
        return make_model(kind)
    model = new_model("classifier", kind if kind in REFUSED else "electra")
    if kind == "untrained":
        model.new_parts = NewParts({"classifier": model.classifier.weights}, "a checkpoint")
    if kind == "no tokenizer":
        model.tokenizer = NoTokenizer()
    return model


@pytest.mark.filterwarnings("ignore::keras_bert.program.errors.UntrainedWarning")
@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("few-shot classifier", {}, "no class for a SentenceClassifier, but for Encoder, .*MaskedLM. Use"),
        ("writer", {}, "Only these models can be exported: .* Received: TextToText"),
        ("xlnet", {}, "XLNetEncoder has others, such as its attention"),
        ("longformer", {}, "LongEncoder has others"),
        ("neobert", {}, "transformers has no class for the family neobert"),
        ("untrained", {}, "^classifier of this SequenceClassifier is not trained"),
        ("no tokenizer", {}, "A NoTokenizer has no form as a tokenizer.json"),
        ("classifier", {"weights": "int4"}, "weights of the format huggingface-onnx must be float16, int8 or None"),
        ("classifier", {"max_seq_length": 20}, "have no option max_seq_length. Use one of: pooling, normalize.$"),
        ("classifier", {"pooling": "max"}, "pooling is for exports of Encoder only"),
    ],
)
def test_what_has_no_such_form_is_refused_before_anything_is_written(kind, options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        refused_model(kind).export_for_serving(tmp_path / "out", format=FORMAT, **options)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(("type", "message"), [(UNUSED, "has unused pieces"), (None, "merges pairs")])
def test_a_model_of_sentence_piece_that_unigram_cannot_hold_is_refused(type, message):
    tokenizer = make_model("classifier", "albert").tokenizer
    model = SentencePieceModel.from_bytes(tokenizer.model)
    changes = {"trainer": b"\x18\x02"} if type is None else {"pieces": (*model.pieces, Piece("zz", 0.0, type))}
    changed = SentencePieceTokenizer(dataclasses.replace(model, **changes).to_bytes())
    with pytest.raises(InputError, match=message):
        tokenizer_json(changed)


def test_the_command_writes_a_folder_and_refuses_one_that_exists(tmp_path, run_here, refused_here):
    make_model("classifier").save_pretrained(tmp_path / "model")
    arguments = ["--model_dir", tmp_path / "model", "--output_dir", tmp_path / "out", "--format", FORMAT]
    code, shown = run_here(export_model, *arguments)
    assert (code, shown.out.splitlines()[-1]) == (0, f"SequenceClassifier exported to {tmp_path / 'out'}")
    assert (tmp_path / "out" / "onnx" / "model.onnx").stat().st_size
    assert "out is not empty. Remove it or give another name." in refused_here(export_model, *arguments).err


@pytest.mark.slow
def test_transformers_js_gives_the_same_logits(tmp_path):
    packages, node = os.environ.get("KERAS_BERT_TRANSFORMERS_JS"), shutil.which("node")
    if not packages or not node:
        pytest.skip("Node and KERAS_BERT_TRANSFORMERS_JS, a folder with @huggingface/transformers, are needed")
    model, folder = make_model("classifier"), tmp_path / "out"
    model.export_for_serving(folder, format=FORMAT)
    program = """
        import { AutoTokenizer, AutoModelForSequenceClassification as Model, env } from "@huggingface/transformers";
        env.allowRemoteModels = false;
        const [folder, texts] = JSON.parse(process.argv[1]);
        const rows = (await AutoTokenizer.from_pretrained(folder))(texts, { padding: true, truncation: true });
        const { logits } = await (await Model.from_pretrained(folder, { dtype: "fp32" }))(rows);
        console.log(JSON.stringify(logits.tolist()));
    """
    texts = [*TEXTS[1:5], *TEXTS[6:]]  # it cuts the last token of longer rows too
    command = [node, "--input-type=module", "-e", program, json.dumps([str(folder), texts])]
    shown = subprocess.run(command, cwd=packages, capture_output=True, check=True)
    expected = answers_of(model, rows_of(folder, texts))["logits"]
    np.testing.assert_allclose(json.loads(shown.stdout), expected, rtol=1e-5, atol=2e-5)
