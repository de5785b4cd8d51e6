"""Models that are trained on text without labels.

entry.py                     what checkpoints and exports must know of them
onnx.py                      its models as ONNX operations
pretrainer.py                BertPretrainer: masked LM and next sentence
span_pretrainer.py           SpanPretrainer: BertPretrainer with SpanBERT's boundary objective
electra_pretrainer.py        ElectraPretrainer: a generator replaces tokens, a discriminator finds them
replaced_token_detector.py   ReplacedTokenDetector: which tokens were replaced
"""
