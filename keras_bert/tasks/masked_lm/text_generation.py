"""Generates text with a masked language model, by filling masks repeatedly.

A masked language model fills gaps in finished texts. It does not model the probability of a whole text or where a text
ends. So the length must be given, and the text drifts and repeats itself more than that of a left-to-right model. See
docs/text_prediction.md.
"""

import dataclasses
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, documented, option
from keras_bert.tasks.masked_lm.mask_filling import check_masked_lm, checked_texts, score_masks
from keras_bert.tasks.masked_lm.masked_texts import join_tokens
from keras_bert.tasks.text_rows import checked_length, token_lists, tokenizer_of

ORDERS = ("left_to_right", "most_confident", "random", "mask_predict")


@documented
@dataclasses.dataclass(frozen=True)
class GenerationOptions(Options):
    """How text is generated.

    References: Wang & Cho, 2019, BERT has a Mouth, and It Must Speak (sampling again at random positions);
        Ghazvininejad et al., 2019, Mask-Predict.
    """

    length: int = option(20, "Tokens to write.", at_least=1)
    order: str = option(
        "left_to_right",
        "Which mask is filled next; most_confident: the mask with the most probable token. mask_predict fills all at "
        "once; each later pass masks and fills the least probable tokens again, fewer each time.",
        choices=ORDERS,
    )
    temperature: float = option(
        1.0,
        "0 selects the most probable token; 1 draws from the model's probabilities; higher values give more varied "
        "texts.",
        at_least=0.0,
    )
    top_k: int | None = option(
        50,
        "Draw from this many most probable tokens; 0 on the command line, None in Python: from all.",
        at_least=1,
        read=lambda number: number or None,
    )
    rounds: int = option(10, "Passes of mask_predict.", at_least=1)
    revisions: int = option(
        0, "How often, at the end, every token is masked and drawn again, in random order.", at_least=0
    )
    seed: int = option(0, "The same seed gives the same text.", flag="random_seed")


@dataclasses.dataclass(frozen=True)
class GeneratedText:
    """A continued prompt: the generated `tokens`, as in the vocabulary, and `text`, which includes the prompt."""

    prompt: str
    tokens: tuple[str, ...]
    text: str


def generate_text(model: Any, prompts: Any, *, batch_size: int = 32, **options: Any) -> list[GeneratedText]:
    """Continues prompts.

    Args:
        model: a `MaskedLM` or `BertPretrainer` with a vocabulary.
        prompts: a string or several; an empty one is allowed.
        batch_size: prompts computed at once.
        **options: see `GenerationOptions`: `length`, `order`, `temperature`, `top_k`, `rounds`, `revisions`, `seed`.

    Returns:
        A `GeneratedText` for each prompt. It does not depend on the other prompts.

    Raises:
        InputError: a prompt with `length` more tokens exceeds the model's positions, a prompt has a [MASK], an option
            is unknown or out of range, or the model has no masked-LM head or no vocabulary.

    Example:
        model = MaskedLM.from_pretrained("uncased_L-12_H-768_A-12")
        generate_text(model, "The king rode", length=10, seed=1)[0].text
    """
    check_masked_lm(model)
    prompts = checked_texts(prompts, "prompt")
    options = _options(options)
    writer = _Writer(model, prompts, options, batch_size)
    if options.order == "mask_predict":
        writer.fill_in_rounds()
    else:
        writer.fill_one_by_one()
    writer.revise()
    return writer.texts()


def _options(options: dict) -> GenerationOptions:
    known = [field.name for field in dataclasses.fields(GenerationOptions)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InputError(f"Generation has no option {unknown[0]}. It has: {', '.join(known)}")
    return GenerationOptions(**options)


class _Writer:
    """The rows of all prompts while they are filled; a "place" is the index of one of the `length` generated tokens."""

    def __init__(self, model, prompts: list[str], options: GenerationOptions, batch_size: int):
        self.model, self.prompts, self.options, self.batch_size = model, prompts, options, batch_size
        self.vocabulary = model.vocabulary
        self.tokenizer, longest = model.tokenizer, checked_length(model.config, None)
        mask = self.vocabulary.special_tokens.mask
        self.rows, self.first_columns = [], []
        tokens = token_lists(prompts, tokenizer_of(model).tokenize).to_list()
        for number, (prompt, ids_of_prompt) in enumerate(zip(prompts, tokens, strict=True), start=1):
            if mask in prompt:
                raise InputError(f"Prompt {number} must not have a {mask}. Use fill_masks to fill masks inside a text.")
            ids = [self.vocabulary.cls_id, *ids_of_prompt]
            if len(ids) + options.length + 1 > longest:
                raise InputError(
                    f"Prompt {number} has {len(ids) - 1} tokens. With {options.length} more, [CLS] and [SEP] it "
                    f"exceeds the model's {longest} positions. Give a shorter prompt or a smaller length."
                )
            self.first_columns.append(len(ids))
            ids += [self.vocabulary.mask_id] * options.length + [self.vocabulary.sep_id]
            self.rows.append(np.array(ids, np.int32))
        self.generators = [np.random.default_rng([options.seed % 2**63, number]) for number in range(len(prompts))]
        is_candidate = np.zeros(model.config.vocab_size, bool)
        is_candidate[self.vocabulary.text_ids()] = True
        self._forbidden = np.where(is_candidate, 0.0, -np.inf)
        # The first generated token must begin a word, so that it does not change the prompt's last word.
        continues = [self.vocabulary.continues_word(token) for token in self.vocabulary.tokens]
        continues += [False] * (model.config.vocab_size - len(continues))
        self._forbidden_first = np.where(continues, -np.inf, self._forbidden)
        if np.isneginf(self._forbidden_first).all():
            raise InputError("The vocabulary has no token that could begin a word.")

    def fill_one_by_one(self) -> None:
        length = self.options.length
        orders = [generator.permutation(length) for generator in self.generators]
        for step in range(length):
            if self.options.order == "most_confident":
                self._draw_at_the_surest()
                continue
            chosen = orders if self.options.order == "random" else [np.arange(length)] * len(self.rows)
            self._draw([order[step : step + 1] for order in chosen])

    def fill_in_rounds(self) -> None:
        length, rounds = self.options.length, self.options.rounds
        scores = self._draw([np.arange(length)] * len(self.rows))
        for done in range(1, rounds):
            count = length * (rounds - done) // rounds
            if not count:
                return
            columns = [np.sort(np.argsort(score, kind="stable")[:count]) for score in scores]
            self._mask(columns)
            for score, at, new in zip(scores, columns, self._draw(columns), strict=True):
                score[at] = new

    def revise(self) -> None:
        for _ in range(self.options.revisions):
            orders = [generator.permutation(self.options.length) for generator in self.generators]
            for step in range(self.options.length):
                columns = [order[step : step + 1] for order in orders]
                self._mask(columns)
                self._draw(columns)

    def texts(self) -> list[GeneratedText]:
        found = []
        for prompt, row, first in zip(self.prompts, self.rows, self.first_columns, strict=True):
            tokens = tuple(self.vocabulary.tokens[token_id] for token_id in row[first:-1])
            if self.tokenizer.keeps_spaces:
                written = self.tokenizer.decode(row[first:-1].tolist())
            else:
                # Joined after a dummy word, so that leading punctuation is attached to the prompt.
                written = join_tokens(["x" if prompt.strip() else "", *tokens])
                written = written.removeprefix("x") if prompt.strip() else written
            found.append(GeneratedText(prompt, tokens, prompt.rstrip() + written))
        return found

    def _mask(self, columns: list[np.ndarray]) -> None:
        for row, first, at in zip(self.rows, self.first_columns, columns, strict=True):
            row[first + at] = self.vocabulary.mask_id

    def _draw(self, columns: list[np.ndarray]) -> list[np.ndarray]:
        """Samples tokens at places of each row, all in one pass; returns the model's log-probabilities of them."""
        positions = [first + at for first, at in zip(self.first_columns, columns, strict=True)]

        def draw(number: int, log_probabilities: np.ndarray):
            drawn = [
                self._draw_token(number, place, scores)
                for place, scores in zip(columns[number], log_probabilities, strict=True)
            ]
            return np.array(drawn), log_probabilities[np.arange(len(drawn)), drawn]

        found = score_masks(self.model, self.rows, positions, draw, self.batch_size)
        for row, at, (drawn, _) in zip(self.rows, positions, found, strict=True):
            row[at] = drawn
        return [scores for _, scores in found]

    def _draw_at_the_surest(self) -> None:
        masked = [np.flatnonzero(row[:-1] == self.vocabulary.mask_id) for row in self.rows]

        def draw(number: int, log_probabilities: np.ndarray):
            columns = masked[number] - self.first_columns[number]
            allowed = [
                scores + self._barred(int(place)) for place, scores in zip(columns, log_probabilities, strict=True)
            ]
            surest = int(np.argmax(np.max(allowed, axis=1)))
            return surest, self._draw_token(number, columns[surest], log_probabilities[surest])

        found = score_masks(self.model, self.rows, masked, draw, self.batch_size)
        for row, at, (surest, token_id) in zip(self.rows, masked, found, strict=True):
            row[at[surest]] = token_id

    def _draw_token(self, number: int, place: int, log_probabilities: np.ndarray) -> int:
        scores = log_probabilities.astype(np.float64) + self._barred(place)
        if self.options.temperature == 0:
            return int(np.argmax(scores))
        best = np.argsort(-scores, kind="stable")[: self.options.top_k]
        best = best[np.isfinite(scores[best])]
        weights = np.exp((scores[best] - scores[best[0]]) / self.options.temperature)
        return int(self.generators[number].choice(best, p=weights / weights.sum()))

    def _barred(self, place: int) -> np.ndarray:
        return self._forbidden_first if place == 0 else self._forbidden
