"""The signatures of an exported `CrossEncoder`."""

import dataclasses

from keras_bert.config.signature_options import SignatureOptions
from keras_bert.serving.graph import answer_operations
from keras_bert.tasks.classification.signatures import classifier_signatures


def cross_encoder_signatures(model, tokenizer, options: SignatureOptions) -> dict:
    """Returns the signatures of a `CrossEncoder`: those of a `SequenceClassifier` for pairs with one score.

    `text` is the query, which gets the prompt of the export's options, by default the model's default prompt; `text_b`
    is the text. `score` is the same as `serving_default`.
    """
    prompt, options = model.prompt(options.prompt), dataclasses.replace(options, text_pairs=True)
    activate = getattr(answer_operations, model.activation)
    made = classifier_signatures(model, tokenizer, options, activate, prompt)
    return {**made, "score": made["serving_default"]}
