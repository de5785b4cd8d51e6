"""The names that modules and model classes had in earlier versions.

Modules are found under these names, since pickles of models name the modules of classes.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType

# Earlier name -> today's name of a model class. The version of commit 314faad saved models under the earlier names.
CLASSES = {
    "BertMaskedLM": "MaskedLM",
    "BertMultipleChoice": "MultipleChoice",
    "BertSequenceClassifier": "SequenceClassifier",
    "BertSpanClassifier": "SpanClassifier",
    "BertTokenClassifier": "TokenClassifier",
}
# Earlier name -> today's name of a module, both in `keras_bert`.
MODULES = {
    "models.sequence_classifier": "tasks.classification.model",
    "models.sentence_classifier": "tasks.classification.sentence_classifier",
    "models.cross_encoder": "tasks.ranking.model",
    "models.token_classifier": "tasks.tagging.model",
    "models.span_classifier": "tasks.question_answering.model",
    "models.multiple_choice": "tasks.multiple_choice.model",
    "models.masked_lm": "tasks.masked_lm.model",
    "models.text_to_text": "tasks.text_to_text.model",
    "models.beam_search": "tasks.text_to_text.beam_search",
    "models.sentence_encoder": "tasks.embedding.model",
    "models.embedding_losses": "tasks.embedding.losses",
    "models.cached_batch": "tasks.embedding.cached_batch",
    "models.pretrainer": "tasks.pretraining.pretrainer",
    "models.span_pretrainer": "tasks.pretraining.span_pretrainer",
    "models.electra_pretrainer": "tasks.pretraining.electra_pretrainer",
    "models.replaced_token_detector": "tasks.pretraining.replaced_token_detector",
    "models.encoder": "encoders.bert.encoder",
    "models.long_encoder": "encoders.long.encoder",
    "models.mobile_bert_encoder": "encoders.mobile_bert.encoder",
    "models.modern_bert_encoder": "encoders.rotary.encoder",
    "models.static_encoder": "encoders.static.encoder",
    "models.transformer_xl": "encoders.transformer_xl.model",
    "models.xlnet_encoder": "encoders.xlnet.encoder",
    "config.long_config": "encoders.long.config",
    "config.mobile_bert_config": "encoders.mobile_bert.config",
    "config.modern_bert_config": "encoders.rotary.config",
    "layers.rotary_attention": "encoders.rotary.attention",
    "layers.rotary_block": "encoders.rotary.block",
    "config.transformer_xl_config": "encoders.transformer_xl.config",
    "config.xlnet_config": "encoders.xlnet.config",
}
_PACKAGE = "keras_bert."


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the module of today for an earlier name."""

    def find_spec(self, name: str, path=None, target=None) -> importlib.machinery.ModuleSpec | None:
        is_earlier = name.removeprefix(_PACKAGE) in MODULES and name.startswith(_PACKAGE)
        return importlib.machinery.ModuleSpec(name, self) if is_earlier else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        today = importlib.import_module(_PACKAGE + MODULES[spec.name.removeprefix(_PACKAGE)])
        module = ModuleType(spec.name, today.__doc__)
        module.__dict__.update({name: value for name, value in vars(today).items() if not name.startswith("__")})
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the module of today has run."""


def install() -> None:
    """Makes Python find modules under their earlier names, after it has looked everywhere else."""
    sys.meta_path.append(_Finder())
