"""Text from a masked language model, by filling masks again and again.

Such a model has learnt to fill gaps in finished texts. It gives no probability to a text as a whole and cannot say when
a text ends, so the length is given, and what it writes drifts and repeats itself more than what a left-to-right model
writes. See docs/text_prediction.md.
"""

import dataclasses

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tasks.masked_lm.mask_scoring import (
    check_masked_lm,
    checked_length,
    checked_texts,
    python_tokenizer,
    score_masks,
)
from keras_bert.tasks.masked_lm.masked_texts import join_tokens

ORDERS = ("left_to_right", "most_confident", "random", "mask_predict")


@dataclasses.dataclass(frozen=True)
class GenerationOptions:
    """How text is generated.

    Args:
        length: the number of tokens to write.
        order: `left_to_right`, `most_confident` (always the place that the model is surest of) or `random` fill one
            place in each pass. `mask_predict` fills all in the first pass, and in the others those again that it was
            least sure of, fewer each time.
        temperature: 0 takes the likeliest token; 1 draws by the model's probabilities; above 1 draws more boldly.
        top_k: draws from so many likeliest tokens only; None from all.
        rounds: the passes of `mask_predict`.
        revisions: how often, in the end, every place is masked once more and drawn again, in random order.
        seed: the same seed gives the same text.

    Raises:
        InputError: a value is out of range.

    References: Wang & Cho, 2019, BERT has a Mouth, and It Must Speak (drawing again at random places); Ghazvininejad et
    al., 2019, Mask-Predict.
    """

    length: int = 20
    order: str = "left_to_right"
    temperature: float = 1.0
    top_k: int | None = 50
    rounds: int = 10
    revisions: int = 0
    seed: int = 0

    def __post_init__(self):
        for name, lowest in (("length", 1), ("rounds", 1), ("revisions", 0), ("temperature", 0), ("top_k", 1)):
            value = getattr(self, name)
            if value is not None and not value >= lowest:
                raise InputError(f"{name} must be {lowest} or more. Received: {value}")
        if self.order not in ORDERS:
            raise InputError(f"order must be one of {', '.join(ORDERS)}. Received: {self.order!r}")


@dataclasses.dataclass(frozen=True)
class GeneratedText:
    """What was written behind a prompt: `tokens`, as they are in the vocabulary, and `text`, the prompt included."""

    prompt: str
    tokens: tuple[str, ...]
    text: str


def generate_text(model, prompts, *, batch_size: int = 32, **options) -> list[GeneratedText]:
    """Writes text behind prompts.

    Args:
        model: a `MaskedLM` or `BertPretrainer` with a vocabulary.
        prompts: a string or several; an empty one is allowed.
        batch_size: prompts computed at once.
        **options: see `GenerationOptions`: `length`, `order`, `temperature`, `top_k`, `rounds`, `revisions`, `seed`.

    Returns:
        A `GeneratedText` for each prompt. What is drawn for a prompt does not depend on the others.

    Raises:
        InputError: a prompt with `length` more tokens is longer than the model or has a [MASK], an option is unknown or
            out of range, or the model has no masked-LM head or no vocabulary.

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
    """The rows of all prompts while they are filled; a place is one of the `length` tokens behind a prompt."""

    def __init__(self, model, prompts: list[str], options: GenerationOptions, batch_size: int):
        self.model, self.prompts, self.options, self.batch_size = model, prompts, options, batch_size
        self.vocabulary = model.vocabulary
        self.tokenizer, longest = python_tokenizer(model), checked_length(model, None)
        mask = self.vocabulary.special_tokens.mask
        self.rows, self.first_columns = [], []
        for number, prompt in enumerate(prompts, start=1):
            if mask in prompt:
                raise InputError(f"Prompt {number} has a {mask}. What fills masks inside a text is fill_masks.")
            ids = [self.vocabulary.cls_id, *self.tokenizer.encode(prompt)]
            if len(ids) + options.length + 1 > longest:
                raise InputError(
                    f"Prompt {number} has {len(ids) - 1} tokens. With {options.length} more, [CLS] and [SEP] that is "
                    f"longer than the model's {longest} positions: give a shorter prompt or length."
                )
            self.first_columns.append(len(ids))
            ids += [self.vocabulary.mask_id] * options.length + [self.vocabulary.sep_id]
            self.rows.append(np.array(ids, np.int32))
        self.generators = [np.random.default_rng([options.seed % 2**63, number]) for number in range(len(prompts))]
        is_candidate = np.zeros(model.config.vocab_size, bool)
        is_candidate[self.vocabulary.text_ids()] = True
        self._forbidden = np.where(is_candidate, 0.0, -np.inf)
        # The first token begins a word: the prompt stays as it is.
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
                # Joined behind a word, so that punctuation finds its place.
                written = join_tokens(["x" if prompt.strip() else "", *tokens])
                written = written.removeprefix("x") if prompt.strip() else written
            found.append(GeneratedText(prompt, tokens, prompt.rstrip() + written))
        return found

    def _mask(self, columns: list[np.ndarray]) -> None:
        for row, first, at in zip(self.rows, self.first_columns, columns, strict=True):
            row[first + at] = self.vocabulary.mask_id

    def _draw(self, columns: list[np.ndarray]) -> list[np.ndarray]:
        """Draws tokens at places of each row, all from one pass; returns their log-probabilities in the model."""
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
            allowed = [scores + self._barred(place) for place, scores in zip(columns, log_probabilities, strict=True)]
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
