"""`SpanClassifier` on texts: questions in, answers with offsets out, in any script."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from keras_bert import AdamW, InputError, SpanClassifier
from keras_bert.program.user_inputs import collect
from keras_bert.tasks.base import text_task
from keras_bert.tasks.question_answering.examples import Answer
from keras_bert.tasks.question_answering.task import QuestionAnsweringTask

pytestmark = pytest.mark.usefixtures("without_graphs")

NAMES = ["ada", "alan", "grace", "kurt"]
YEARS = ["1815", "1912", "1906", "1978"]
CHINESE = "谁在哪里写了书李白王维苏轼杜甫北京西安他们一本"
ARABIC = ["من", "كتب", "متى", "سلمى", "عمر", "ليلى", "زيد", "الكتاب", "الرسالة"]
VOCABULARY = tiny.vocabulary(
    "who when was born in ? . , 😀 e", *NAMES, *YEARS, *dict.fromkeys(CHINESE), *ARABIC, *(f"pad{n}" for n in range(4))
)
# With weights that begin at the usual 0.02, such a small model learns nothing.
CONFIG = tiny.config(VOCABULARY, dropout=0.0, hidden_size=32, max_position_embeddings=32, initializer_range=0.1)


def new_model(**arguments):
    return tiny.made(SpanClassifier, CONFIG, VOCABULARY, **arguments)


def births():
    """Two questions about each of 16 texts: who was born, and when. Some texts do not say."""
    generator = np.random.default_rng(0)
    rows = []
    for name in NAMES:
        for year in YEARS:
            before, after = ("in , " * generator.integers(0, most) for most in (20, 12))
            context = f"{before}{name} was born in {year}. {after}"
            rows += [("who?", context, name), ("when?", context, year)]
        rows += [("who?", f"{before}was born in {year}.", None), ("when?", f"{before}{name} was born.", None)]
    return rows


QUESTIONS, CONTEXTS, TEXTS = map(list, zip(*births(), strict=True))
X = (QUESTIONS, CONTEXTS)
ANSWERS = [
    text and {"text": text, "answer_start": context.rindex(text)} for context, text in zip(CONTEXTS, TEXTS, strict=True)
]


@pytest.fixture(scope="module")
def reader():
    """A model that has learned who was born when."""
    keras.utils.set_random_seed(1)
    model = new_model(doc_stride=8)
    model.compile(AdamW(1e-2))
    tf.config.run_functions_eagerly(False)  # many steps are faster in a graph
    model.fit(X, ANSWERS, batch_size=8, epochs=20, verbose=0)
    return model


GIVEN = [Answer(answer["text"], answer["answer_start"]) if answer else None for answer in ANSWERS]
FORMS = {
    "dictionaries": ANSWERS,
    "answers": GIVEN,
    "lists": [[answer] if answer else [] for answer in ANSWERS],
    "as SQuAD's tables": [
        {name: [answer[name]] if answer else [] for name in ("text", "answer_start")} for answer in ANSWERS
    ],
}
COLUMNS = {name: [[answer[name]] if answer else [] for answer in ANSWERS] for name in ("text", "answer_start")}


def test_answers_of_every_form_are_the_same_examples():
    task = text_task(new_model())
    expected = [[answer] if answer else [] for answer in GIVEN]
    for name, form in [*FORMS.items(), ("columns", COLUMNS)]:
        assert task.examples(X, form).answers == expected, name
    arrays = (np.array(X[0]), np.array(X[1], object))
    assert task.examples(arrays, ANSWERS) == task.examples(X, ANSWERS)
    twice = [[Answer("ada", 0), {"text": ["ada", "a"], "answer_start": [0, 2]}]]
    assert task.examples((["who?"], ["ada"]), twice).answers == [[Answer("ada", 0), Answer("ada", 0), Answer("a", 2)]]


@pytest.mark.parametrize("batch_size", [None, 7])
def test_a_data_set_of_strings_is_the_same_examples(batch_size):
    dataset = tf.data.Dataset.from_tensor_slices((X, {name: tf.ragged.constant(COLUMNS[name]) for name in COLUMNS}))
    x, y, _ = collect(dataset.batch(batch_size) if batch_size else dataset, QuestionAnsweringTask.example_rank)
    task = text_task(new_model())
    assert task.examples(x, y) == task.examples(X, ANSWERS)


def test_a_model_learns_to_answer(reader, tmp_path):
    who, when = reader.predict((["who?", "when?"], "kurt  was born in\n1815."))
    assert (who.text, who.start, who.end) == ("kurt", 0, 4)
    assert (when.text, when.start, when.end) == ("1815", 18, 22)
    assert who.probability > 0.5
    assert len(reader.predict((["who?"], ["ada was born."]), n_best_size=2)[0].nbest) == 2
    scores = reader.evaluate(X, ANSWERS)
    assert (scores["exact"], scores["f1"], scores["total"], scores["NoAns_total"]) == (100, 100, 40, 8)
    assert (scores["best_exact"], scores["best_f1"]) == (100, 100)
    reader.save_pretrained(tmp_path / "model")
    again = SpanClassifier.from_pretrained(tmp_path / "model")
    assert (again.null_threshold, again.doc_stride, again.max_query_length) == (0.0, 8, 64)
    assert again.predict(X)[:2] == reader.predict(X)[:2]


def test_where_there_is_no_answer_the_model_says_so(reader):
    nobody, somebody = reader.predict((["who?", "who?"], ["was born in 1906.", "ada was born in 1906."]))
    assert (nobody.text, nobody.start, nobody.has_answer) == ("", None, False)
    assert nobody.null_score_difference > 0 > somebody.null_score_difference
    assert somebody.text == "ada"
    assert reader.predict((["who?"], ["was born in 1906."]), null_threshold=1e6)[0].has_answer
    assert not reader.predict((["who?"], ["ada was born in 1906."]), null_threshold=-1e6)[0].has_answer


def test_questions_without_an_answer_make_a_model_that_may_give_none(eagerly):
    for answers, threshold in (([Answer("ada", 0)], None), ([None], 0.0)):
        model = new_model()
        model.compile("sgd")
        model.fit((["who?"], ["ada"]), answers, verbose=0)
        assert model.null_threshold == threshold
    assert SpanClassifier.from_config(new_model(null_threshold=-2.5).get_config()).null_threshold == -2.5


def test_a_long_context_is_read_through_windows(reader, capsys):
    model = reader
    context = "in , " * 15 + "grace was born in 1912. " + "in , " * 12
    who, when = model.predict((["who?", "when?"], context))
    assert context[who.start : who.end] == who.text == "grace"
    assert context[when.start : when.end] == when.text == "1912"
    assert "2 of 2 contexts do not fit in 32 tokens and were cut into several windows" in capsys.readouterr().err
    rows = text_task(model).rows(text_task(model).examples((["who?"], context))).rows
    assert rows.lengths.max() == 32
    short = text_task(model).rows(text_task(model).examples((["who?"], context)), 16).rows
    assert short.lengths.max() == 16


@pytest.mark.parametrize(
    ("context", "text"),
    [
        ("ada", "ada"),
        ("\r\nada\r\n", "ada"),
        ("😀 ada, 😀", "😀"),
        ("in 😀😀 ada", "ada"),
        ("was e\u0301 born", "e\u0301"),
        ("was e\u0301", "e\u0301"),
        ("谁写了书", "书"),
        ("كَتَبَ سَلْمَى", "سَلْمَى"),
        ("x\U0001f469\u200d\U0001f4bb ada .", "ada"),
        ("in\r\nwas\r\nborn", "was\r\nborn"),
    ],
)
def test_the_learned_columns_lead_back_to_the_characters(context, text):
    task = text_task(new_model())
    examples = task.examples((["who?"], [context]), [{"text": text, "answer_start": context.rindex(text)}])
    example_rows = task.rows(examples)
    assert example_rows.notes == []
    start, end = (int(example_rows.rows.labels[f"{name}_positions"][0]) for name in ("start", "end"))
    assert start > 0
    logits = {name: np.zeros(example_rows.rows.splits[-1], np.float32) for name in ("start_logits", "end_logits")}
    logits["start_logits"][start], logits["end_logits"][end] = 9, 9
    (answer,) = task.answers(examples, example_rows, logits)
    assert (answer.text, answer.start) == (text, context.rindex(text))


def notes_and_weights(contexts, answers, max_seq_length=None, model=None):
    task = text_task(model or new_model())
    example_rows = task.rows(task.examples((["who?"] * len(contexts), contexts), answers), max_seq_length)
    labels = example_rows.rows.labels
    return example_rows.notes, labels["start_positions"].tolist(), labels["is_real_example"].tolist()


def test_answers_that_are_not_in_the_context_are_counted_and_not_learned():
    answers = [Answer("alan", 0), Answer("ada", 99), Answer("\u200d", 4)]
    notes, starts, weights = notes_and_weights(["ada was born", "was ada", "ada \u200d was"], answers)
    assert notes == [
        "the examples: 1 of 3 questions have an answer that is not in their context: they are not used for training "
        "(1)",
        "the examples: 1 of 3 questions have an answer without tokens: they are not used for training (3)",
        "the examples: 1 of 3 questions have an answer that is not at its answer_start: the nearest occurrence is "
        "used (2)",
    ]
    assert (starts, weights) == ([0, 5, 0], [0.0, 1.0, 0.0])


@pytest.mark.parametrize("part", ["18", "81", "15"])
def test_answers_that_tokens_cut_are_counted(part):
    answer = {"text": part, "answer_start": "in 1815.".index(part)}
    notes, starts, weights = notes_and_weights(["in 1815."], [answer])
    assert notes == [
        "the examples: 1 of 1 questions have an answer that begins or ends inside a token: the whole token is used (1)"
    ]
    assert (starts, weights) == ([5], [1.0])


def test_windows_that_do_not_show_the_answer_learn_that_there_is_none():
    context = "ada was born in 1815, 1912, 1906, 1978."  # 12 tokens; a window holds 7 of them
    notes, starts, weights = notes_and_weights([context], [Answer("1978", 34)], 12, new_model(doc_stride=5))
    assert notes == [
        "the examples: 1 of 1 contexts do not fit in 12 tokens and were cut into several windows; there are 2 windows"
    ]
    assert (starts, weights) == ([0, 9], [1.0, 1.0])
    notes, starts, _ = notes_and_weights([context], [Answer(context, 0)], 12)
    assert "1 of 1 questions have an answer that no window contains in full" in notes[1]
    assert set(starts) == {0}


def test_the_weights_of_questions_are_those_of_their_windows():
    task = text_task(new_model(doc_stride=4))
    examples = task.examples((["who?"] * 2, ["ada was born in 1815, 1912, 1906.", "ada"]), [None, None], [0.5, 2.0])
    assert task.rows(examples, 12).rows.labels["example_weights"].tolist() == [0.5, 0.5, 2.0]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (["who?"], [None], r"a tuple of two columns: \(questions, contexts\). Received: list of 1"),
        (([""], ["ada"]), [None], "its text of column 1 is ''"),
        ((["who?"], ["ada \ud83d"]), [None], "Context 1 has half a surrogate pair at character 4"),
        ((["who?"], ["ada"]), ["ada"], "The answer to question 1 must be an Answer, .* Received: 'ada'"),
        ((["who?"], ["ada"]), [{"text": "ada"}], "The answer to question 1 has no answer_start. Received: text"),
        ((["who?"], ["ada"]), {"text": ["ada"]}, "y has no answer_start. Received: text"),
        ((["who?"], ["ada"]), [{"text": "ada", "answer_start": "0"}], "the number of the character .* 'ada' and '0'"),
        ((["who?"], ["ada"]), [{"text": ["ada"], "answer_start": []}], "Question 1 has 1 answers but 0 starts"),
    ],
)
def test_what_cannot_be_learned_is_refused(x, y, message):
    with pytest.raises(InputError, match=message):
        new_model().fit(x, y)
