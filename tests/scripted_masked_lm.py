"""A masked language model whose predictions are given by a function, so that results are known."""

import numpy as np
import tiny

from keras_bert.config import BertConfig
from keras_bert.tokenization.wordpiece import WordPieceTokenizer


class ScriptedMaskedLM:
    """Args: `words`, the vocabulary beside the special tokens; `say`, (tokens of a row, place) -> {word: probability}.

    The rest of the probability is spread evenly over all tokens. `rows_seen` collects the rows of all calls.
    """

    examples_at_once = 1
    feature_names = ("input_ids", "input_mask", "masked_lm_positions")

    def __init__(self, words, say, max_positions=16):
        self.tokenizer = WordPieceTokenizer(tiny.vocabulary(*words))
        self.vocabulary = self.tokenizer.vocabulary
        self.config = BertConfig(
            vocab_size=len(self.vocabulary),
            hidden_size=2,
            num_attention_heads=1,
            max_position_embeddings=max_positions,
        )
        self.say = say
        self.rows_seen = []
        self.engine = self  # as of a loaded export

    def warn_if_untrained(self, parts):
        """Never warns: the model has nothing to train."""

    def run(self, batch):
        size = len(self.vocabulary)
        logits = np.zeros((*batch["masked_lm_positions"].shape, size), np.float32)
        for number, (ids, mask, places) in enumerate(
            zip(batch["input_ids"], batch["input_mask"], batch["masked_lm_positions"], strict=True)
        ):
            tokens = [self.vocabulary.tokens[token_id] for token_id in ids[mask > 0]]
            self.rows_seen.append(" ".join(tokens))
            for column, place in enumerate(places):
                said = self.say(tokens, int(place)) if 0 < place < len(tokens) - 1 else {}
                probabilities = np.full(size, (1 - sum(said.values())) / size)
                for word, probability in said.items():
                    probabilities[self.vocabulary.ids[word]] += probability
                logits[number, column] = np.log(probabilities + 1e-12) + 3.0
        return {"masked_lm_logits": logits}
