"""Fine-tuning records, read back as google-research/bert and TF Model Garden parse them."""

import json
import logging
import os

import numpy as np
import pytest
import tensorflow as tf
import tiny

from data_prep import create_finetuning_data as command
from data_prep.create_finetuning_data import create_finetuning_data
from data_prep.finetuning.finetuning_task import FinetuningOptions, FinetuningTask
from data_prep.finetuning.question_answering_records import QuestionAnswering
from keras_bert.program.errors import InputError

WORDS = ["the", "film", "was", "good", "bad", "very", "who", "sings", "sits", "##s", "."]
VOCABULARY = tiny.vocabulary(*WORDS)


def tokens(names):
    return tf.io.FixedLenFeature([names], tf.int64)


def google_specification(max_seq_length, **others):
    """`name_to_features` of Google's `file_based_input_fn_builder` and `input_fn_builder`."""
    lists = {name: tokens(max_seq_length) for name in ("input_ids", "input_mask", "segment_ids")}
    return lists | {name: tf.io.FixedLenFeature([], dtype) for name, dtype in others.items()}


CLASSIFIER = {"label_ids": tf.int64, "is_real_example": tf.int64}


def read(path, specification):
    records = tf.data.TFRecordDataset(str(path)).map(lambda record: tf.io.parse_single_example(record, specification))
    records = list(records.as_numpy_iterator())
    return {name: np.array([record[name] for record in records]) for name in specification}


def text_of(ids, vocabulary=VOCABULARY):
    return " ".join(vocabulary.tokens[number] for number in ids if number)


@pytest.fixture
def folder(tmp_path):
    VOCABULARY.save(tmp_path / "vocab.txt")

    write(
        tmp_path, train_tsv="text\tlabel\nthe film was good\tyes\nbad film\tno\n", dev_tsv="text\tlabel\ngood.\tyes\n"
    )
    return tmp_path


def write(folder, **files):
    for name, content in files.items():
        (folder / name.replace("_", ".", 1)).write_text(content, "utf-8")


def make(folder, task, files=("train", "eval"), task_name=None, suffix="tsv", **arguments):
    names = {"train": "train", "eval": "dev", "predict": "test"}
    options = {name: arguments.pop(name) for name in list(arguments) if name in FinetuningOptions.__dataclass_fields__}
    return create_finetuning_data(
        task,
        {part: str(folder / f"{names[part]}.{suffix}") for part in files},
        folder / "vocab.txt",
        folder / "out",
        options=FinetuningOptions(**{"max_seq_length": 8, **options}),
        task_name=task_name,
        **arguments,
    )


def test_classification_records_are_googles(folder):
    write(folder, test_tsv="text\nvery bad\n")
    metadata = make(folder, "classification", ("train", "eval", "predict"))
    train = read(folder / "out" / "train.tf_record", google_specification(8, **CLASSIFIER))
    assert list(map(text_of, train["input_ids"])) == ["[CLS] the film was good [SEP]", "[CLS] bad film [SEP]"]
    assert train["label_ids"].tolist() == [1, 0]
    assert train["is_real_example"].tolist() == [1, 1]
    assert train["input_mask"].tolist() == [[1] * 6 + [0] * 2, [1] * 4 + [0] * 4]
    predict = read(folder / "out" / "predict.tf_record", google_specification(8, **CLASSIFIER))
    assert (text_of(predict["input_ids"][0]), predict["label_ids"].tolist()) == ("[CLS] very bad [SEP]", [0])
    written = json.loads((folder / "out" / "metadata.json").read_text("utf-8"))
    assert metadata == written | {"options": metadata["options"]}
    garden = {"task_type": "bert_classification", "processor_type": "text", "max_seq_length": 8}
    garden |= {"train_data_size": 2, "eval_data_size": 1, "test_data_size": 1}
    garden |= {"num_labels": 2, "label_list": ["no", "yes"]}
    assert metadata | garden == metadata
    files = ["eval.tf_record", "metadata.json", "predict.tf_record", "train.tf_record"]
    assert sorted(os.listdir(folder / "out")) == files


def test_pairs_have_two_segments(folder):
    write(folder, train_tsv="a\tb\tlabel\nthe film\twas good\tx\nbad\tbad\ty\n")
    make(folder, "classification", ["train"], text_column="a", second_text_column="b")
    train = read(folder / "out" / "train.tf_record", google_specification(8, **CLASSIFIER))
    assert text_of(train["input_ids"][0]) == "[CLS] the film [SEP] was good [SEP]"
    assert train["segment_ids"][0].tolist() == [0, 0, 0, 0, 1, 1, 1, 0]


def test_regression_records_have_float_labels(folder):
    write(folder, train_tsv="text\tlabel\ngood\t4.5\nbad\t-1\n")
    metadata = make(folder, "regression", ["train"])
    specification = google_specification(8, label_ids=tf.float32, is_real_example=tf.int64)
    assert read(folder / "out" / "train.tf_record", specification)["label_ids"].tolist() == [4.5, -1.0]
    assert (metadata["task_type"], metadata["label_type"]) == ("bert_regression", "float")
    assert "num_labels" not in metadata


def test_multi_label_records_have_a_number_for_each_label(folder):
    write(folder, train_tsv="text\tlabel\ngood\tb,a\nbad\t\n", dev_tsv="text\tlabel\ngood\tb\n")
    metadata = make(folder, "multi_label")
    specification = google_specification(8) | {"label_ids": tokens(2)}
    assert read(folder / "out" / "train.tf_record", specification)["label_ids"].tolist() == [[1, 1], [0, 0]]
    assert read(folder / "out" / "eval.tf_record", specification)["label_ids"].tolist() == [[0, 1]]
    assert metadata["label_list"] == ["a", "b"]


def test_columns_of_0_and_1_name_the_labels_in_their_order(folder):
    write(folder, train_tsv="text\trude\tfunny\ngood\t0\t1\n", test_tsv="text\nbad\n")
    metadata = make(folder, "multi_label", ["train", "predict"], label_columns=("rude", "funny"))
    specification = google_specification(8) | {"label_ids": tokens(2)}
    assert read(folder / "out" / "train.tf_record", specification)["label_ids"].tolist() == [[0, 1]]
    assert read(folder / "out" / "predict.tf_record", specification)["label_ids"].tolist() == [[0, 0]]
    assert metadata["label_list"] == ["rude", "funny"]


def test_multiple_choice_records_hold_a_row_for_each_choice(folder):
    write(folder, train_tsv="text\ta\tb\tc\tlabel\nwho\tsings\tsits\tbad\t2\nthe film\tsings\twas good\tsits\t1\n")
    metadata = make(folder, "multiple_choice", ["train"], choice_columns=("a", "b", "c"))
    specification = {name: tokens(3 * 8) for name in ("input_ids", "input_mask", "segment_ids")}
    train = read(folder / "out" / "train.tf_record", specification | {"label_ids": tokens(1)})
    rows = train["input_ids"].reshape(2, 3, 8)
    choices = [f"[CLS] the film [SEP] {ending} [SEP]" for ending in ("sings", "was good", "sits")]
    assert list(map(text_of, rows[1])) == choices
    assert train["label_ids"].tolist() == [[2], [1]]
    assert (metadata["num_choices"], metadata["label_list"]) == (3, ["0", "1", "2"])


@pytest.mark.parametrize(("names", "labels"), [("BA", ()), ("21", ("1", "2")), (("no", "yes"), ("yes", "no"))])
def test_choices_may_be_called_by_letters_or_given_names(folder, names, labels):
    write(folder, train_tsv="text\ta\tb\tlabel\n" + "".join(f"who\tsings\tsits\t{name}\n" for name in names))
    make(folder, "multiple_choice", ["train"], choice_columns=("a", "b"), labels=labels)
    train = read(folder / "out" / "train.tf_record", {"label_ids": tokens(1)})
    assert train["label_ids"].tolist() == [[1], [0]]


def test_tagging_records_are_model_gardens(folder):
    write(folder, train_conll="the O\nfilms B-X\n\nwas O\n", test_conll="sits\n")
    metadata = make(folder, "tagging", ["train", "predict"], suffix="conll")
    specification = google_specification(8, sentence_id=tf.int64, sub_sentence_id=tf.int64) | {"label_ids": tokens(8)}
    train = read(folder / "out" / "train.tf_record", specification)
    assert list(map(text_of, train["input_ids"])) == ["[CLS] the film ##s [SEP]", "[CLS] was [SEP]"]
    assert train["label_ids"].tolist() == [[-1, 0, 1, -1, -1, -1, -1, -1], [-1, 0, -1, -1, -1, -1, -1, -1]]
    assert train["sentence_id"].tolist() == [0, 1]
    assert (metadata["task_type"], metadata["label_list"], metadata["tag_scheme"]) == ("tagging", ["O", "B-X"], "BIO")
    assert len(read(folder / "out" / "predict.tf_record", specification)["input_ids"]) == 1


def test_texts_with_spans_make_the_records_of_their_words(folder, caplog):
    lines = [{"text": "the films", "label": [[4, 8, "X"]]}, {"text": "was", "label": []}]
    write(folder, train_conll="the O\nfilms B-X\n\nwas O\n", train_jsonl="\n".join(map(json.dumps, lines)))
    with caplog.at_level(logging.WARNING):
        made = [make(folder, "tagging", ["train"], suffix="conll")]
        os.rename(folder / "out", folder / "of_words")
        made.append(make(folder, "tagging", ["train"], suffix="jsonl"))
    assert made[0]["files"]["train"]["sha256"] == made[1]["files"]["train"]["sha256"]
    assert "train.jsonl: 1 of 1 spans do not begin and end with words" in caplog.text


def squad(*questions, context="the film was good . the film was bad . who sings"):
    rows = [{"id": str(number), **question} for number, question in enumerate(questions)]
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": rows}]}]})


def asked(question, text=None, start=0):
    return {"question": question, "answers": [] if text is None else [{"text": text, "answer_start": start}]}


SQUAD = {"unique_ids": tf.int64, "start_positions": tf.int64, "end_positions": tf.int64}
WINDOWS = {"max_seq_length": 12, "doc_stride": 4, "max_query_length": 3}


def test_question_answering_records_are_googles(folder):
    write(folder, train_json=squad(asked("who", "good", 13), asked("who sings", "sings", 43)))
    metadata = make(folder, "question_answering", ["train"], suffix="json", **WINDOWS)
    train = read(folder / "out" / "train.tf_record", google_specification(12, **SQUAD, is_impossible=tf.int64))
    assert train["unique_ids"].tolist() == [1_000_000_000 + number for number in range(5)]
    shown = [
        text_of(ids[start : end + 1])
        for ids, start, end in zip(train["input_ids"], train["start_positions"], train["end_positions"], strict=True)
    ]
    assert shown == ["good", "[CLS]", "[CLS]", "[CLS]", "sings"]
    assert text_of(train["input_ids"][1]) == "[CLS] who [SEP] . the film was bad . who sings [SEP]"
    assert train["is_impossible"].tolist() == [0] * 5
    garden = {"task_type": "bert_squad", "max_query_length": 3, "doc_stride": 4, "version_2_with_negative": False}
    assert metadata | garden == metadata
    assert sorted(os.listdir(folder / "out")) == ["metadata.json", "train.tf_record"]


def test_questions_without_an_answer_are_impossible(folder):
    write(folder, train_json=squad(asked("who"), asked("who", "good", 13)))
    make(folder, "question_answering", ["train"], suffix="json", version_2_with_negative=True, max_query_length=3)
    train = read(folder / "out" / "train.tf_record", google_specification(8, **SQUAD, is_impossible=tf.int64))
    assert set(zip(train["is_impossible"].tolist(), train["start_positions"].tolist(), strict=True)) >= {(1, 0), (0, 6)}
    assert not train["start_positions"][train["is_impossible"] == 1].any()


def test_the_side_file_leads_from_columns_to_the_text(folder):
    write(folder, dev_json=squad(asked("who", "bad", 32), asked("film?", "The", 0)))
    make(folder, "question_answering", ["eval"], suffix="json", **WINDOWS)
    records = read(folder / "out" / "eval.tf_record", google_specification(12, **SQUAD))
    lines = [json.loads(line) for line in (folder / "out" / "eval.windows.jsonl").read_text("utf-8").splitlines()]
    questions = [(line["id"], line["question"], line["answers"]) for line in lines]
    assert questions == [("0", "who", ["bad"]), ("1", "film?", ["The"])]
    row = 0
    for line in lines:
        for number, window in enumerate(line["windows"]):
            assert records["unique_ids"][row] == window["unique_id"]
            for place in range(window["num_tokens"]):
                token = window["first_token"] + place
                piece = VOCABULARY.tokens[records["input_ids"][row][window["first_column"] + place]]
                assert line["context"][line["token_starts"][token] : line["token_ends"][token]] == piece.strip("#")
            assert number in line["best_window"]
            row += 1
    assert row == len(records["input_ids"])


def test_records_for_prediction_have_no_positions(folder):
    write(folder, test_json=squad({"question": "who"}))
    make(folder, "question_answering", ["predict"], suffix="json", **WINDOWS)
    record = next(iter(tf.data.TFRecordDataset(str(folder / "out" / "predict.tf_record")))).numpy()
    names = set(tf.train.Example.FromString(record).features.feature)
    assert names == {"unique_ids", "input_ids", "input_mask", "segment_ids"}
    assert "answers" not in json.loads((folder / "out" / "predict.windows.jsonl").read_text("utf-8").splitlines()[0])


def test_answers_that_are_not_in_the_context_are_left_out_of_training_and_named(folder, caplog):
    questions = [asked("who", "good", 13), asked("who", "great", 13), asked("who", "film", 5), asked("who", "nice", 0)]
    write(folder, train_json=squad(*questions), dev_json=squad(*questions))
    with caplog.at_level(logging.WARNING):
        metadata = make(folder, "question_answering", suffix="json", max_seq_length=32, max_query_length=3)
    train, evaluation = metadata["files"]["train"], metadata["files"]["eval"]
    assert (train["num_examples"], train["num_records"], evaluation["num_records"]) == (2, 2, 4)
    assert train["counts"] == {"absent_answers": 2, "moved_answers": 1}
    assert "2 questions were left out: their answer is not in the context. They are 1, 3." in caplog.text
    assert "2 questions are labelled as unanswerable" in caplog.text
    assert "1 answers were found at another position than answer_start" in caplog.text


def test_model_gardens_names_can_be_used(folder):
    make(folder, "classification", use_v2_feature_names=True)
    names = {"input_word_ids": tokens(8), "input_mask": tokens(8), "input_type_ids": tokens(8), "label_ids": tokens(1)}
    train = read(folder / "out" / "train.tf_record", names)
    assert text_of(train["input_word_ids"][1]) == "[CLS] bad film [SEP]"
    record = next(iter(tf.data.TFRecordDataset(str(folder / "out" / "train.tf_record")))).numpy()
    assert "input_ids" not in tf.train.Example.FromString(record).features.feature


def test_how_many_are_encoded_at_once_does_not_show(folder, monkeypatch):
    write(folder, train_json=squad(*[asked("who", "good", 13)] * 3), train_conll="the O\n\nfilms O\n\nwas O\n")
    write(folder, dev_json=squad(*[asked("who", "good", 13)] * 3))
    contents = []
    for number in (1024, 1):
        for maker in (FinetuningTask, QuestionAnswering):
            monkeypatch.setattr(maker, "rows_at_once", number)
        found = {}
        for task, suffix in (("classification", "tsv"), ("tagging", "conll"), ("question_answering", "json")):
            parts = ["train"] if suffix == "conll" else ["train", "eval"]
            make(folder, task, parts, suffix=suffix, max_query_length=3, doc_stride=2)
            for path in (folder / "out").iterdir():
                found[task, path.name] = path.read_bytes()
            (folder / "out").rename(folder / f"{task}-{number}")
        contents.append(found)
    assert contents[0] == contents[1]


def test_an_interrupted_run_leaves_nothing(folder, monkeypatch):
    from data_prep.finetuning.classification_records import Classification

    batches = Classification.batches

    def stopped(self, part, *arguments):
        if part == "eval":
            raise KeyboardInterrupt
        return batches(self, part, *arguments)

    monkeypatch.setattr(Classification, "batches", stopped)
    before = sorted(os.listdir(folder))
    with pytest.raises(KeyboardInterrupt):
        make(folder, "classification")
    assert sorted(os.listdir(folder)) == before


def test_what_is_cut_is_counted(folder, caplog):
    write(folder, train_tsv="text\tlabel\nthe film was very very good\tyes\nbad\tno\n")
    with caplog.at_level(logging.WARNING):
        metadata = make(folder, "classification", ["train"], max_seq_length=5)
    assert metadata["files"]["train"]["counts"] == {"cut_texts": 1}
    assert "train.tsv: 1 texts were cut to max_seq_length." in caplog.text


def test_a_vocabulary_that_does_not_fit_is_told(folder, caplog):
    write(folder, train_tsv="text\tlabel\nxyzzy\tyes\nbad\tno\n")
    with caplog.at_level(logging.WARNING):
        make(folder, "classification", ["train"])
    assert "16.7 % of the tokens are [UNK]" in caplog.text


def test_broken_rows_of_glue_are_left_out_of_training_and_counted(folder, caplog):
    write(folder, train_tsv="sentence\tlabel\ngood\t1\nbad\nfilm\t0\n")
    with caplog.at_level(logging.WARNING):
        metadata = make(folder, "classification", ["train"], task_name="SST-2")
    assert (metadata["train_data_size"], metadata["processor_type"]) == (2, "SST-2")
    assert metadata["files"]["train"]["counts"] == {"rows_left_out": 1}
    assert "1 rows were left out, the first because" in caplog.text


CHOICES = "text\ta\tb\tlabel\nwho\tsings\tsits\t1\nwho\tsings\tsits\t2\n"
TWO_SCHEMES = {"train_conll": "a B-X\nb I-X\n", "dev_conll": "a B-X\nb E-X\n"}
TWO_CHOICES = {"choice_columns": ("a", "b")}
LONG_QUESTIONS = {"max_seq_length": 10, "max_query_length": 8}
# Task, files, options, what the message names.
BAD_INPUT = [
    ("classification", {"train_tsv": "text\tlabel\nx\ty\n"}, {}, "two labels or more. Received: ..y..."),
    ("classification", {"dev_tsv": "text\tlabel\nx\tmaybe\n"}, {}, "'maybe' of example 1 is unknown"),
    ("classification", {}, {"labels": ("yes", "so")}, "train.tsv: the label 'no' of example 2"),
    ("classification", {}, {"label_columns": ("a", "b")}, "has one label column. Received: a, b"),
    ("classification", {}, {"max_seq_length": 3}, "max_seq_length must be a whole number of at least 4. Received: 3"),
    ("regression", {}, {}, "line 2: the score in column 'label' must be a number. Received: 'yes'"),
    ("multi_label", {"train_tsv": "text\tlabel\nx\ty\n"}, {}, "two labels or more. Received: y"),
    ("multiple_choice", {}, {}, "--choice_columns"),
    ("multiple_choice", {"train_tsv": CHOICES, "dev_tsv": CHOICES}, TWO_CHOICES, "'2' of example 2 is none of .* 0, 1"),
    ("parsing", {}, {}, "task must be one of classification, .* Received: 'parsing'"),
    ("tagging", TWO_SCHEMES, {}, "different schemes: .*train.conll is BIO, .*dev.conll is BIOES"),
    ("question_answering", {"train_json": squad(asked("who"), asked("who", "good", 13))}, {}, "'0' has no answer. If"),
    ("question_answering", {"train_json": squad(asked("who", "great"))}, {}, "no .* answer that occurs in its context"),
    ("question_answering", {"train_json": squad(asked("who"))}, {}, "no question has an answer. .*--predict_file"),
    ("question_answering", {}, LONG_QUESTIONS, "has no room for a context"),
]


@pytest.mark.parametrize(("task", "files", "options", "message"), BAD_INPUT)
def test_bad_input_is_one_error_and_leaves_nothing(folder, task, files, options, message):
    write(folder, **files)
    before = sorted(os.listdir(folder))
    suffix = {"tagging": "conll", "question_answering": "json"}.get(task, "tsv")
    if suffix == "json":
        options = {**WINDOWS, **options}
    with pytest.raises(InputError, match=message):
        make(folder, task, ("train",) if suffix == "json" else ("train", "eval"), suffix=suffix, **options)
    assert sorted(os.listdir(folder)) == before


def test_the_usual_columns_are_those_of_all_rows(folder):
    rows = ['{"sentence": "good", "score": 1}', '{"question": "who", "sentence": "bad", "score": 2, "label": "no"}']
    write(folder, train_jsonl="\n".join(rows))
    files = {"train": str(folder / "train.jsonl")}
    with pytest.raises(InputError, match="1 of 2 rows .* line 1: there is no column 'question' for the text"):
        create_finetuning_data("classification", files, folder / "vocab.txt", folder / "out")


def test_a_file_without_blank_lines_is_suspicious(folder, caplog):
    write(folder, train_conll="the O\n" * 1001)
    with caplog.at_level(logging.WARNING):
        metadata = make(folder, "tagging", ["train"], suffix="conll")
    assert "the sentence at line 1 has 1001 words. Is a blank line missing between sentences?" in caplog.text
    assert metadata["files"]["train"]["counts"] == {"cut_sentences": 1}


def test_labels_must_be_given_where_there_is_no_training_file(folder):
    with pytest.raises(InputError, match="Without a training file, the labels and their order are unknown"):
        make(folder, "classification", ["eval"])
    assert make(folder, "classification", ["eval"], labels=("no", "yes"))["label_list"] == ["no", "yes"]


def test_the_command_reads_a_folder_and_says_what_it_made(folder, done_here, refused_here):
    flags = [f"--data_dir={folder}", f"--vocab_file={folder}/vocab.txt", f"--output_dir={folder}/out"]
    printed = done_here(command, "--task=classification", "--max_seq_length=16", *flags)
    assert "train                      2 examples         2 records   train.tf_record" in printed.out
    assert "labels                     2: no, yes" in printed.out
    assert "100%" in printed.err
    assert json.loads((folder / "out" / "metadata.json").read_text("utf-8"))["options"]["max_seq_length"] == 16
    printed = refused_here(command, "--task=classification", *flags)
    assert printed.err.strip().splitlines()[-1].startswith("error: The output folder")


def test_wrong_combinations_of_flags_are_one_line(folder, run_here):
    flags = [f"--vocab_file={folder}/vocab.txt", f"--output_dir={folder}/out"]
    code, printed = run_here(command, "--task_name=SST-2", "--task=tagging", *flags)
    assert (code, "SST-2 has the task classification, not tagging" in printed.err) == (1, True)
    assert not (folder / "out").exists()
