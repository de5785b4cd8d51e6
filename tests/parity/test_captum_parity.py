"""Explanations equal those of captum, on the same weights of transformers."""

import json
import pathlib
import subprocess

import numpy as np
import pytest

from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.tokenization.vocabulary import Vocabulary

SCRIPT = pathlib.Path(__file__).with_name("captum_explanations.py")
# The order of RoBERTa's special tokens: its positions are counted from pad_token_id.
WORDS = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *"abcdefgh", "##a", "##b"]
VOCABULARY = Vocabulary(WORDS)
SHAPE = {
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
TEXTS = ["a bab c d", "e f", "g h a b c d e f"]
ROWS = ["[CLS] a b ##a ##b c d [SEP]", "[CLS] e f [SEP]", "[CLS] g h a b c d e f [SEP]"]
PAIR_ROWS = ["[CLS] a [SEP] b ##a ##b c [SEP]", "[CLS] e f [SEP] c a b [SEP]"]
PAIRS = (["a", "e f"], ["bab c", "c a b"])
CASES = {
    "ForSequenceClassification": (ROWS, TEXTS, [[2], [0], [1]], [2, 0, 1]),
    "ForTokenClassification": (ROWS, TEXTS, [[2, 1], [1, 0], [8, 2]], [(1, 1), (0, 0), (7, 2)]),
    "ForQuestionAnswering": (PAIR_ROWS, PAIRS, [[3, 6], [5, 5]], [(0, 5), (2, 3)]),
}
FAMILIES = {"Bert": SHAPE, "Roberta": {**SHAPE, "layer_norm_eps": 1e-5, "type_vocab_size": 1}}


def ids_of(row):
    return [WORDS.index(token) for token in row.split()]


def segments_of(row):
    first = row.split().index("[SEP]")
    return [int(column > first) for column in range(len(row.split()))]


@pytest.fixture(scope="module")
def theirs(transformers_python, tmp_path_factory):
    folder, jobs = tmp_path_factory.mktemp("captum"), []
    for family, config in FAMILIES.items():
        for head, (rows, _, outputs, _) in CASES.items():
            ids = [ids_of(row) for row in rows]
            options = {
                "rows": ids,
                "segments": [segments_of(row) for row in rows] if family == "Bert" else None,
                "baselines": [[id_ if id_ in (0, 2) else 1 for id_ in row] for row in ids],
                "outputs": outputs,
            }
            config = {**config, "num_labels": 2 if head == "ForQuestionAnswering" else 3}
            jobs.append((f"{family}{head}", config, str(folder / f"{family}{head}"), options))
    (folder / "jobs.json").write_text(json.dumps(jobs))
    command = [transformers_python, str(SCRIPT), str(folder / "jobs.json")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-3000:]
    return folder


def numpy_rollout(attentions):
    """Abnar and Zuidema, 2020, section 3: [L, N, S, S] -> [S, S]."""
    result = np.eye(attentions.shape[-1])
    for attention in attentions:
        mixed = attention.mean(axis=0) + np.eye(len(result))
        result = mixed / mixed.sum(axis=-1, keepdims=True) @ result
    return result


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("head", CASES)
def test_scores_equal_those_of_captum_and_the_formula_of_rollout(theirs, family, head):
    model = from_pretrained(None, theirs / f"{family}{head}")
    model.vocabulary = VOCABULARY
    rows, texts, outputs, targets = CASES[head]
    with np.load(theirs / f"{family}{head}" / "explanations.npz") as file:
        expected = dict(file)
    for name, steps in (("gausslegendre", 50), ("riemann_trapezoid", 20)):
        found = model.explain(texts, targets, steps=steps, quadrature=name)
        for number, explanation in enumerate(found):
            assert [token.token for token in explanation.tokens] == rows[number].split()
            scores = [token.score for token in explanation.tokens]
            np.testing.assert_allclose(scores, expected[f"{number}:{name}"], rtol=0, atol=1e-4)
            assert np.abs(scores).max() > 0.01
            if family == "Bert":
                # RoBERTa's positions depend on the ids, so captum's output for a row of [PAD] has other positions.
                error = float(expected[f"{number}:{name}:error"][0])
                assert explanation.completeness_error == pytest.approx(error, abs=1e-4)
    for number, explanation in enumerate(model.explain(texts, targets, method="attention_rollout")):
        rollout = numpy_rollout(expected[f"{number}:attentions"])
        columns = {"ForSequenceClassification": [0], "ForTokenClassification": outputs[number][:1]}
        wanted = rollout[columns.get(head, outputs[number])].mean(axis=0)
        np.testing.assert_allclose([token.score for token in explanation.tokens], wanted, rtol=0, atol=1e-5)
