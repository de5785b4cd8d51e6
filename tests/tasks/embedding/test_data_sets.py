"""Several data sets in one training, each with its loss; and teachers, whose scores are computed before training."""

import keras
import numpy as np
import pytest
from tiny_checkpoints import CONFIG, random_checkpoint

from keras_bert import AdamW, CrossEncoder, InputError, SentenceEncoder, SequenceClassifier
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.pretrained import model_of
from keras_bert.tasks.embedding.examples import DataSets, SentenceExamples
from keras_bert.tasks.embedding.losses import CoSENT, Matryoshka
from keras_bert.tasks.embedding.task import EmbeddingTask, teacher_labels
from keras_bert.tasks.embedding.teacher_losses import DistillKLDiv, GISTEmbed, MarginMSE

pytestmark = pytest.mark.usefixtures("without_graphs")

TEXTS = ["the quick fox", "the brown fox", "quick", "brown the fox quickest"]
OTHERS = ["quick the fox", "fox brown", "quickest", "the fox"]
WRONG = ["the", "brown the", "fox fox", "quickest brown"]
CHECKPOINT = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


@pytest.fixture
def model():
    keras.utils.set_random_seed(0)
    model = model_of(SentenceEncoder, random_checkpoint(config=CHECKPOINT))
    model.compile(AdamW(0.0), jit_compile=False)
    return model


@pytest.fixture(scope="module")
def ranker():
    checkpoint = random_checkpoint(form.CLASSIFIER, config=CHECKPOINT, labels=("score",))
    return model_of(CrossEncoder, checkpoint.replace(problem_type="regression"), activation="linear")


@pytest.fixture
def parts(model):
    return [
        SentenceExamples([TEXTS, OTHERS]),
        SentenceExamples([TEXTS, OTHERS, WRONG], [[1, 0.5]] * 4, loss=DistillKLDiv()),
        SentenceExamples([TEXTS], labels=["a", "b", "a", "b"], weights=[1, 1, 0.5, 1], loss="batch_hard_triplet"),
        SentenceExamples([TEXTS, OTHERS], [0.1, 0.5, 0.9, 1.0], loss=Matryoshka(CoSENT(), [8, 4])),
        SentenceExamples([TEXTS, OTHERS, WRONG], loss=GISTEmbed(guide=model)),
    ]


def loss_of(model, examples, **options):
    return model.fit(examples, verbose=0, batch_size=4, **options).history["loss"][0]


def test_each_batch_has_the_loss_of_its_data_set(eagerly, model, parts):
    expected = np.mean([loss_of(model, part) for part in parts])
    found = loss_of(model, DataSets(parts), validation_data=DataSets(parts[:2]))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("sampler", ["proportional", "round_robin"])
def test_data_sets_take_turns_if_they_are_asked_to(sampler, model, parts):
    rows = EmbeddingTask(model).rows(DataSets(parts, sampler)).rows
    assert rows.in_turns == (sampler == "round_robin")


def test_a_teacher_teaches_what_its_predictions_would(eagerly, model, ranker):
    columns = [TEXTS, OTHERS, WRONG]
    scores = ranker.predict(tuple(columns), verbose=0)
    for loss in (MarginMSE, DistillKLDiv):
        given = loss_of(model, SentenceExamples(columns, scores.tolist()), loss=loss())
        found = loss_of(model, SentenceExamples(columns), loss=loss(teacher=ranker), validation_split=0.5)
        assert found != pytest.approx(given, rel=1e-3)  # of the first half only
        found = loss_of(model, SentenceExamples(columns), loss=loss(teacher=ranker))
        np.testing.assert_allclose(found, given, rtol=1e-5)


def test_an_encoder_teaches_by_dot_products_and_its_folder_does_too(model, ranker, tmp_path):
    examples = SentenceExamples([TEXTS, OTHERS, WRONG])
    vectors = np.stack([model.encode(column) for column in examples.columns], axis=1)
    model.save_pretrained(tmp_path / "teacher")
    found = teacher_labels(tmp_path / "teacher", examples, gives_vectors=False, batch_size=3)
    np.testing.assert_allclose(found, np.sum(vectors[:, :1] * vectors[:, 1:], axis=-1), atol=1e-6)
    np.testing.assert_allclose(teacher_labels(model, examples, True, 3), vectors, atol=1e-6)
    with pytest.raises(InputError, match="A guide is a SentenceEncoder.*Received: CrossEncoder"):
        teacher_labels(ranker, examples, True, 3)
    classifier = model_of(SequenceClassifier, random_checkpoint(), labels=["no", "yes"])
    with pytest.raises(InputError, match="A teacher of texts is a .*Received: SequenceClassifier"):
        teacher_labels(classifier, examples, False, 3)


PAIRS, LISTS = SentenceExamples([TEXTS, OTHERS]), [TEXTS, OTHERS, WRONG]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda model: DataSets([]), "one or more SentenceExamples"),
        (lambda model: DataSets([PAIRS], "in_turns"), "one of proportional, round_robin. Received"),
        (lambda model: model.evaluate(DataSets([PAIRS])), "Evaluate and predict them one by"),
        (lambda model: model.fit(DataSets([SentenceExamples([TEXTS])])), "nothing to learn from single texts"),
        (lambda model: model.fit(DataSets([SentenceExamples(LISTS, [1, 2, 3, 4], source="b")])), "b: there is no loss"),
        (lambda model: model.fit(DataSets([PAIRS]), loss="cosent"), "its own loss, but the model was given CoSENT"),
        (lambda model: model.fit(DataSets([PAIRS]), validation_data=((TEXTS, OTHERS), [1] * 4)), "must be DataSets"),
        (lambda model: model.fit(DataSets([PAIRS]), [1, 2]), "Leave y and sample_weight out"),
        (lambda model: model.fit(DataSets([PAIRS]), validation_split=0.5), "no validation_split"),
    ],
)
def test_what_does_not_fit_is_refused(use, message, eagerly, model):
    with pytest.raises(InputError, match=message):
        use(model)
