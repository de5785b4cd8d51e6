"""Losses of embeddings and cross-encoders, and their gradients, equal those of sentence-transformers in float64."""

import json
import pathlib
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tasks.embedding.contrastive_losses import Contrastive, OnlineContrastive
from keras_bert.tasks.embedding.losses import (
    AnglE,
    BatchHardTriplet,
    CoSENT,
    CosineRegression,
    InBatchNegatives,
    LabelTriplets,
    Triplet,
)
from keras_bert.tasks.embedding.teacher_losses import DistillKLDiv, GISTEmbed, MarginMSE
from keras_bert.tasks.ranking.losses import LambdaLoss, ListNet, RankingMarginMSE, RankNet

SCRIPT = pathlib.Path(__file__).with_name("sentence_transformers_losses.py")
generator = np.random.default_rng(0)
GIVEN = {
    "vectors": generator.normal(size=(8, 4, 7)),
    "guide": generator.normal(size=(8, 4, 5)),
    "score": generator.random(8),
    "binary": np.array([1, 0, 0, 1, 1, 0, 1, 0]),
    "ones": np.ones(8),
    "labels": np.array([0, 1, 2, 0, 1, 1, 2, 3]),
    "scores": 2 * generator.normal(size=(8, 5)),
    "relevances": generator.integers(0, 4, size=(8, 5)).astype(float),
    "teacher_3": generator.normal(size=(8, 3)),
    "teacher_5": generator.normal(size=(8, 5)),
    "margins_4": generator.normal(size=(8, 4)),
    "margin": generator.normal(size=8),
}
# Ours, theirs, the arguments of both, the number of texts, and its labels.
EMBEDDING = [
    (InBatchNegatives, "MultipleNegativesRankingLoss", {}, 4, None),
    (CoSENT, "CoSENTLoss", {}, 2, "score"),
    (AnglE, "AnglELoss", {}, 2, "score"),
    (CosineRegression, "CosineSimilarityLoss", {}, 2, "score"),
    (Contrastive, "ContrastiveLoss", {}, 2, "binary"),
    (Contrastive, "ContrastiveLoss", {"margin": 0.9}, 2, "binary"),
    (OnlineContrastive, "OnlineContrastiveLoss", {}, 2, "binary"),
    (OnlineContrastive, "OnlineContrastiveLoss", {"margin": 0.9}, 2, "ones"),
    (Triplet, "TripletLoss", {}, 3, None),
    (LabelTriplets, "BatchAllTripletLoss", {}, 1, "labels"),
    (BatchHardTriplet, "BatchHardTripletLoss", {}, 1, "labels"),
    (BatchHardTriplet, "BatchHardTripletLoss", {"margin": 0.5}, 1, "ones"),
    (MarginMSE, "MarginMSELoss", {}, 4, "teacher_3"),
    (MarginMSE, "MarginMSELoss", {}, 3, "margin"),
    (DistillKLDiv, "DistillKLDivLoss", {}, 4, "teacher_3"),
    (DistillKLDiv, "DistillKLDivLoss", {"student_temperature": 0.5, "teacher_temperature": 3.0}, 4, "teacher_3"),
    (GISTEmbed, "GISTEmbedLoss", {}, 3, None),
    (GISTEmbed, "GISTEmbedLoss", {"temperature": 0.1, "contrast_anchors": False}, 2, None),
    (GISTEmbed, "GISTEmbedLoss", {"margin_strategy": "relative", "margin": 0.3}, 3, None),
]
SCHEMES = {
    "none": "NoWeightingScheme",
    "ndcg_loss1": "NDCGLoss1Scheme",
    "ndcg_loss2": "NDCGLoss2Scheme",
    "lambda_rank": "LambdaRankScheme",
    "ndcg_loss2pp": "NDCGLoss2PPScheme",
}
RANKING = [
    (RankingMarginMSE(), "MarginMSELoss", {}, "teacher_5"),
    (RankingMarginMSE(), "MarginMSELoss", {}, "margins_4"),
    (ListNet(), "ListNetLoss", {}, "relevances"),
    (RankNet(), "RankNetLoss", {}, "relevances"),
    (RankNet(sigma=2.0), "RankNetLoss", {"sigma": 2.0}, "teacher_5"),
    (RankNet(k=1), "RankNetLoss", {"k": 1}, "teacher_5"),
    (LambdaLoss(k=2), "LambdaLoss", {"weighting_scheme": "NDCGLoss2PPScheme", "k": 2}, "relevances"),
    *(
        (LambdaLoss(weighting_scheme=a), "LambdaLoss", {"weighting_scheme": b}, "relevances")
        for a, b in SCHEMES.items()
    ),
]


@pytest.fixture(scope="module")
def theirs(sentence_transformers_python):
    given = {name: values.tolist() for name, values in GIVEN.items()}
    given["embedding"] = [[f"e{n}", case[1], case[2], case[3:]] for n, case in enumerate(EMBEDDING)]
    given["ranking"] = [[f"r{n}", case[1], case[2], case[3]] for n, case in enumerate(RANKING)]
    command = [sentence_transformers_python, str(SCRIPT)]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_equal(value_of, values, expected):
    values = tf.constant(values, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(values)
        value = value_of(values)
    np.testing.assert_allclose(float(value), expected["loss"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(tape.gradient(value, values), expected["gradient"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("number", range(len(EMBEDDING)))
def test_a_loss_of_embeddings_equals_theirs(number, theirs):
    loss_class, name, arguments, num_texts, key = EMBEDDING[number]
    loss = loss_class(**arguments)
    labels = GIVEN["guide"][:, :num_texts] if name == "GISTEmbedLoss" else GIVEN.get(key)
    labels = labels[:, None] if key == "margin" else labels
    assert_equal(lambda vectors: loss(vectors[:, :num_texts], labels), GIVEN["vectors"], theirs[f"e{number}"])


@pytest.mark.parametrize("number", range(len(RANKING)))
def test_a_loss_of_cross_encoders_equals_theirs(number, theirs):
    loss, _, _, key = RANKING[number]
    labels = tf.constant(GIVEN[key])
    assert_equal(lambda scores: loss(scores, labels).value, GIVEN["scores"], theirs[f"r{number}"])
