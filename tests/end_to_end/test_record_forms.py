"""All records of create_pretraining_data can be used to train, evaluate and export, without flags for their form."""

import math

import numpy as np
import pytest
import tiny
from pretraining_runs import pretrain
from slow_parameters import slow_except

from data_prep.create_pretraining_data import create_pretraining_data
from data_prep.pretraining.pretraining_records import PretrainingOptions
from keras_bert.config import BertConfig
from keras_bert.training.callbacks import read_history
from keras_bert.training.pretraining import PretrainingEvaluation, evaluate_pretrainer

WORDS = "the quick brown fox jumped over a lazy dog while small birds sang in old"
VOCABULARY = tiny.vocabulary(".", WORDS)
CONFIG = tiny.config(VOCABULARY, max_position_embeddings=64)
XLNET = BertConfig.from_dict({**CONFIG.to_dict(), "model_type": "xlnet"})
FORMS = {
    "packed": ({"max_sequences_per_row": 4}, {"compression": "gzip", "use_v2_feature_names": True}),
    "sentence order, unmasked": ({"sentence_task": "sentence_order", "dynamic_masking": True}, {}),
    "no task": ({"sentence_task": "none"}, {}),
    "no task, packed, unmasked": (
        {"sentence_task": "none", "max_sequences_per_row": 4, "dynamic_masking": True},
        {"compression": "zstd"},
    ),
    "XLNet's, in streams": ({"reuse_len": 20, "num_streams": 8}, {}),
}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """60 documents of 3 to 8 sentences of 3 to 12 words."""
    draw = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("text")
    documents = [
        [" ".join(draw.choice(WORDS.split(), draw.integers(3, 13))) + "." for _ in range(draw.integers(3, 9))]
        for _ in range(60)
    ]
    (folder / "text.txt").write_text("\n\n".join("\n".join(sentences) for sentences in documents) + "\n")
    VOCABULARY.save(folder / "vocab.txt")
    return folder


def losses_of(model, batches) -> dict[str, float]:
    """Returns the mean losses of a pre-trainer over the predictions of all batches, in NumPy."""
    sums = {}
    for batch in batches:
        outputs, batch = model(batch), {name: np.asarray(values) for name, values in batch.items()}
        for task, labels in (("masked_lm", "masked_lm_ids"), ("next_sentence", "next_sentence_labels")):
            logits = np.asarray(outputs[f"{task}_logits"], np.float64)
            ids = batch[labels].reshape(logits.shape[:-1])
            weights = batch.get(f"{task}_weights", np.ones(ids.shape)).reshape(ids.shape)
            losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, ids[..., None], -1)[..., 0]
            sums[task] = sums.get(task, 0) + np.array([(losses * weights).sum(), weights.sum()])
    return {task: total / weight for task, (total, weight) in sums.items() if weight}


@pytest.mark.parametrize("form", slow_except(["packed"], FORMS))
def test_records_of_any_form_are_trained_on_evaluated_and_exported(text, tmp_path, form):
    options, arguments = FORMS[form]
    if arguments.get("compression") == "zstd":
        pytest.importorskip("zstandard")
    create_pretraining_data(
        str(text / "text.txt"),
        text / "vocab.txt",
        output_dir=tmp_path / "records",
        num_shards=2,
        options=PretrainingOptions(
            max_seq_length=40, max_predictions_per_seq=8, dupe_factor=2, short_seq_prob=0.5, **options
        ),
        **arguments,
    )
    records = str(tmp_path / "records")
    model = pretrain(
        tmp_path / "run",
        records,
        config=XLNET if "reuse_len" in options else CONFIG,
        vocabulary=VOCABULARY,
        mem_len=options.get("reuse_len", 0),
        train_batch_size=8,
        learning_rate=1e-2,
        num_train_steps=30,
        num_warmup_steps=1,
    )
    results = evaluate_pretrainer(tmp_path / "run", records, max_eval_steps=5)
    written = dict(line.split(" = ") for line in (tmp_path / "run" / "eval_results.txt").read_text().splitlines())
    assert math.isfinite(results["loss"])
    expected = losses_of(model, PretrainingEvaluation(records, 8, 5).dataset(model))
    assert results["masked_lm_loss"] == pytest.approx(expected["masked_lm"], rel=1e-4)
    # Only words are predicted: the model has learnt that the five special tokens never are.
    assert results["masked_lm_loss"] < math.log(len(VOCABULARY)) - 0.1
    has_task = options.get("sentence_task") != "none" and "reuse_len" not in options
    assert math.isfinite(results["next_sentence_accuracy"]) == has_task
    assert (written["next_sentence_accuracy"] == "n/a") != has_task
    assert all(("next_sentence_accuracy" in line) == has_task for line in read_history(tmp_path / "run/history.jsonl"))
    if has_task:
        assert results["next_sentence_loss"] == pytest.approx(expected["next_sentence"], rel=1e-4)
    else:
        assert results["loss"] == results["masked_lm_loss"]
    if form == "no task, packed, unmasked":
        model.export_for_serving(tmp_path / "saved_models")
