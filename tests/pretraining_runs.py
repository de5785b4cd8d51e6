"""Starts pre-training runs in tests, with the starting point and all options as keywords."""

from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.training.pretraining import train_pretrainer
from keras_bert.training.pretraining_options import PretrainingRunOptions
from keras_bert.training.starting_point import StartingPoint


def pretrain(path, train_files, config=None, vocabulary=None, init_checkpoint=None, **options) -> BertPretrainer:
    start = StartingPoint(config, vocabulary, init_checkpoint)
    return train_pretrainer(path, train_files, start, PretrainingRunOptions(**options))
