"""Windows of contexts and positions of answers equal those of Google's algorithm with loops (google_squad.py)."""

import numpy as np
import pytest
import tiny
from google_squad import google_windows

from keras_bert import GraphTokenizer, InputError, Vocabulary
from keras_bert.tasks.question_answering.examples import Answer, QuestionExamples, find_answer
from keras_bert.tasks.question_answering.rows import WindowOptions, make_windows
from keras_bert.tasks.text_rows import tokenize_texts

VOCABULARY = tiny.vocabulary(*tiny.pieces(), ".", "é")
TOKENIZER = GraphTokenizer(VOCABULARY)


def tokens_of(windows):
    return [
        " ".join(VOCABULARY.tokens[number] for number in row)
        for row in np.split(windows.rows.tokens["input_ids"], windows.rows.splits[1:-1])
    ]


def test_a_long_context_is_seen_through_windows_that_overlap():
    windows = make_windows(["q"], ["a b c d e f g"], TOKENIZER, WindowOptions(8, 2, 3))
    assert tokens_of(windows) == [
        "[CLS] q [SEP] a b c d [SEP]",
        "[CLS] q [SEP] c d e f [SEP]",
        "[CLS] q [SEP] e f g [SEP]",
    ]
    assert windows.rows.padded(8)["segment_ids"][2].tolist() == [0, 0, 0, 1, 1, 1, 1, 0]
    assert windows.rows.padded(8)["input_mask"][2].tolist() == [1, 1, 1, 1, 1, 1, 1, 0]
    # In the first window, c has a token on either side; in the second, none to its left. So has f in the third.
    assert windows.best_window[0].tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_an_answer_has_positions_only_where_a_window_shows_all_of_it():
    windows = make_windows(["q"], ["a b c d e f g"], TOKENIZER, WindowOptions(8, 2, 3))
    starts, ends = windows.positions([(6, 9)])  # "d e"
    assert (starts.tolist(), ends.tolist()) == ([0, 4, 0], [0, 5, 0])
    starts, ends = windows.positions([None])
    assert (starts.tolist(), ends.tolist()) == ([0, 0, 0], [0, 0, 0])


def test_positions_lead_back_to_the_characters_of_the_answer():
    context = "Élan \u200d vital: 日本 a b."
    windows = make_windows(["q"], [context], TOKENIZER, WindowOptions(32, 8, 8))
    starts, ends = windows.offsets(0)
    for answer in ("Élan", "vital", "日", "本 a", "b."):
        first, last = windows.tokens_of(0, find_answer(context, Answer(answer, context.index(answer))))
        assert context[starts[first] : ends[last]] == answer
    # Half a token: the whole one. A character that leaves no token: none.
    ab = make_windows(
        ["q"], ["xab c"], GraphTokenizer(Vocabulary([*VOCABULARY.tokens, "xab"])), WindowOptions(16, 8, 8)
    )
    assert ab.tokens_of(0, (1, 2)) == (0, 0)
    assert windows.tokens_of(0, (5, 6)) is None


def test_long_questions_are_cut_and_counted():
    windows = make_windows(["a b c d", "a"], ["x", "y"], TOKENIZER, WindowOptions(8, 2, 3))
    assert tokens_of(windows) == ["[CLS] a b c [SEP] x [SEP]", "[CLS] a [SEP] y [SEP]"]
    assert windows.num_cut_questions == 1


@pytest.mark.parametrize("options", [(384, 128, 64), (96, 32, 16), (40, 50, 20)])
def test_windows_and_answers_of_squad_are_those_of_googles_algorithm(shared_data, options):
    from data_prep.finetuning.squad import read_squad

    vocabulary = Vocabulary.from_file(shared_data("vocab/bert-base-uncased-vocab.txt"))
    examples = read_squad(shared_data("squad/dev-v1.1.json"))
    picked = np.random.default_rng(1).choice(len(examples), 100, replace=False)
    questions, contexts = ([column[i] for i in picked] for column in (examples.questions, examples.contexts))
    answers = [examples.answers[i][0] for i in picked]
    windows = make_windows(questions, contexts, GraphTokenizer(vocabulary), WindowOptions(*options))
    starts, ends = windows.positions([(answer.start, answer.start + len(answer.text)) for answer in answers])
    best, splits = windows.best_window
    batch = windows.rows.padded(options[0])
    row = 0
    for number, answer in enumerate(answers):
        expected = google_windows(
            contexts[number],
            questions[number],
            (answer.text, answer.start),
            vocabulary.ids,
            length=options[0],
            stride=options[1],
            longest_question=options[2],
        )
        for place, window in enumerate(expected):
            ids = [vocabulary.ids[token] for token in window.tokens]
            padding = [0] * (options[0] - len(ids))
            assert batch["input_ids"][row].tolist() == ids + padding
            assert batch["input_mask"][row].tolist() == [1] * len(ids) + padding
            second = len(ids) - 1 - window.tokens.index("[SEP]")
            assert batch["segment_ids"][row].tolist() == [0] * (len(ids) - second) + [1] * second + padding
            # Where the answer ends inside a word, Google takes all tokens of the word, but this project only those that
            # overlap it.
            assert starts[row] >= window.start or not starts[row]
            assert ends[row] <= window.end or not window.end
            if window.tokens[window.start : window.end + 1] == window.tokens[starts[row] : ends[row] + 1]:
                assert (starts[row], ends[row]) == (window.start, window.end)
            else:
                assert answer.text[-1].isalnum() or answer.text[0].isalnum()
            scoring = np.flatnonzero(best[splits[number] : splits[number + 1]] == place)
            assert (scoring - windows.first_token[row] + windows.first_column[row]).tolist() == window.scoring_columns
            row += 1
    assert row == len(windows)


@pytest.mark.parametrize("num_tokens", [0, 1, 196, 197, 200, 250, 346, 347, 400])
def test_a_much_longer_window_scores_tokens_with_one_less_of_context(num_tokens):
    context = " ".join("abcdefghij"[number % 10] for number in range(num_tokens)) or "\u200d"
    windows = make_windows(["q"], [context], TOKENIZER, WindowOptions(200, 150, 2))
    expected = google_windows(context, "q", None, VOCABULARY.ids, length=200, stride=150, longest_question=2)
    assert len(windows) == len(expected)
    for number, window in enumerate(expected):
        scoring = np.flatnonzero(windows.best_window[0] == number) - windows.first_token[number] + 3
        assert scoring.tolist() == window.scoring_columns


def test_an_answer_that_is_not_where_it_says_is_looked_for_nearby():
    context = "A b, a b, a b."
    assert find_answer(context, Answer("a b", 5)) == (5, 8)
    assert find_answer(context, Answer("a b", 9)) == (10, 13)
    assert find_answer(context, Answer("a  b", 0)) == (5, 8)
    assert find_answer(context, Answer("a b", -1)) == (5, 8)
    # A position before the context does not count from its end.
    assert find_answer("a bxx", Answer("a b", -5)) == find_answer("a bxx", Answer("a b", 99)) == (0, 3)
    assert find_answer("xxa bxx", Answer("a b", -5)) == (2, 5)
    assert find_answer(context, Answer("c", 0)) is None
    assert find_answer(context, Answer(" ", 1)) is None


def test_tokens_have_the_offsets_of_characters_in_any_batch():
    texts = ["é a", "", "日本", *["x y"] * 1030, "a\u0301b"]
    tokens = tokenize_texts(texts, TOKENIZER)
    assert tokens.lengths.tolist() == [2, 0, 2, *[2] * 1030, 2]
    assert [array.tolist() for array in tokens.offsets(0)] == [[0, 2], [1, 3]]
    assert [array.tolist() for array in tokens.offsets(2)] == [[0, 1], [1, 2]]
    assert [array.tolist() for array in tokens.offsets(1033)] == [[0, 2], [2, 3]]
    assert tokenize_texts([], TOKENIZER).splits.tolist() == [0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WindowOptions(8, 2, 5), "max_seq_length=8 tokens has no room .* max_query_length=5"),
        (lambda: WindowOptions(64, 0, 5), "doc_stride must be a whole number of at least 1. Received: 0"),
        (lambda: QuestionExamples([], [], []), "there is no question"),
        (lambda: QuestionExamples(["1", "1"], ["q", "q"], ["c", "c"]), "the id '1' is there twice"),
        (lambda: QuestionExamples(["1"], [" "], ["c"]), "the question of '1' is empty"),
        (lambda: QuestionExamples(["1"], ["q"], ["\n"]), "the context of '1' is empty"),
        (lambda: QuestionExamples(["1"], ["q"], ["c", "d"]), "the same length. .*'questions': 1, 'contexts': 2"),
    ],
)
def test_windows_and_examples_that_do_not_fit_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
