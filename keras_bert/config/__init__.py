"""The configs of all model families, as written in `bert_config.json`.

bert_config.py         BertConfig: BERT, the families that differ from it by values only, and the published sizes
signature_options.py   the options that decide the signatures of an export
"""

from keras_bert.config.bert_config import HIDDEN_ACTIVATIONS as HIDDEN_ACTIVATIONS
from keras_bert.config.bert_config import POOLER_ACTIVATIONS as POOLER_ACTIVATIONS
from keras_bert.config.bert_config import POOLINGS as POOLINGS
from keras_bert.config.bert_config import SENTENCE_POOLING as SENTENCE_POOLING
from keras_bert.config.bert_config import SIZES as SIZES
from keras_bert.config.bert_config import BertConfig as BertConfig
from keras_bert.config.bert_config import config_class as config_class
