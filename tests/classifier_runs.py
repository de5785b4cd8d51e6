"""Starts runs of a text classifier in tests of training runs."""

from keras_bert.tasks.classification.examples import labels_of
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.classification.task import probabilities_of
from keras_bert.training.fine_tuning import FineTuningOptions, fine_tune
from keras_bert.training.finished_runs import evaluate_run, predict_run
from keras_bert.training.starting_point import StartingPoint


def train_classifier(path, train, start: StartingPoint, options: FineTuningOptions, dev=None):
    """Trains a classifier with the labels that occur in `train`."""
    arguments = {"labels": labels_of(train)}
    return fine_tune(path, SequenceClassifier, train, dev, start=start, options=options, model_arguments=arguments)


def evaluate_classifier(path, dev, **options):
    return evaluate_run(path, "SequenceClassifier", dev, **options)


def predict_classifier(path, test, **options):
    """Returns the probabilities, float64 (examples, labels)."""
    return probabilities_of(predict_run(path, "SequenceClassifier", test, **options).answers)
