"""Fine-tunes a BERT with transformers and torch, and writes its predictions: the other side of `finetuning_quality`.

Runs with any Python that has torch and transformers; it imports neither TensorFlow nor keras_bert:

    python -m benchmarks.transformers_finetuning --model FOLDER --data FOLDER --task MRPC --seed 1 --output mrpc-1.json

The recipe is that of transformers' own Trainer with `group_by_length`: AdamW (fused), no decay for biases and layer
norms, linear warm-up and decay, gradients clipped by their norm, batches of similar length padded to the longest row.
"""

import json
import math
import sys
import time

import numpy as np
import torch
import transformers

from benchmarks import finetuning_examples as examples
from benchmarks.finetuning_examples import RECIPES, Recipe

# Both sides sort within this many batches, as transformers' LengthGroupedSampler does.
MEGA_BATCHES = 50
IGNORED_LABEL = -100
PREDICTION_BATCH = 64


def length_grouped_batches(lengths, batch_size: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Cuts a shuffled order into mega-batches, sorts each by length, cuts it into batches and shuffles these."""
    order = generator.permutation(len(lengths))
    mega = batch_size * max(1, min(len(order) // (batch_size * 4), MEGA_BATCHES))
    lengths = np.asarray(lengths)
    batches = []
    for first in range(0, len(order), mega):
        part = order[first : first + mega]
        part = part[np.argsort(-lengths[part], kind="stable")]
        batches += [part[place : place + batch_size] for place in range(0, len(part), batch_size)]
    return [batches[place] for place in generator.permutation(len(batches))]


class Rows:
    """Encoded rows: lists of ids and segments; `labels` holds whole columns, or "labels" of one id per token.

    `group` consecutive rows are one example of multiple choice.
    """

    def __init__(self, ids, segments, labels, token_labels=None, group=1):
        self.ids, self.segments, self.labels, self.token_labels, self.group = ids, segments, labels, token_labels, group
        self.row_lengths = np.array([len(row) for row in ids]).reshape(-1, group)
        self.lengths = self.row_lengths.max(axis=1)
        self.num_tokens = int(self.row_lengths.sum())

    def tokens_of(self, places) -> int:
        return int(self.row_lengths[places].sum())

    def batch(self, places) -> dict[str, torch.Tensor]:
        rows = [place * self.group + choice for place in places for choice in range(self.group)]
        width = max(len(self.ids[row]) for row in rows)

        def padded(values, filler):
            result = np.full((len(rows), width), filler, np.int64)
            for number, row in enumerate(rows):
                result[number, : len(values[row])] = values[row]
            return result

        ids = padded(self.ids, 0)
        columns = {"input_ids": ids, "token_type_ids": padded(self.segments, 0)}
        columns["attention_mask"] = (np.arange(width) < np.array([len(self.ids[row]) for row in rows])[:, None]).astype(
            np.int64
        )
        if self.group > 1:
            columns = {name: values.reshape(len(places), self.group, width) for name, values in columns.items()}
        if self.token_labels is not None:
            columns["labels"] = padded(self.token_labels, IGNORED_LABEL)
        columns |= {name: np.asarray(values)[places] for name, values in self.labels.items()}
        return {name: torch.from_numpy(values) for name, values in columns.items()}


def encode_texts(tokenizer, texts, second_texts, labels, max_seq_length) -> Rows:
    encoded = tokenizer(texts, second_texts, truncation=True, max_length=max_seq_length)
    return Rows(encoded["input_ids"], encoded["token_type_ids"], {} if labels is None else {"labels": labels})


def encode_choices(tokenizer, prompts, choices, labels, max_seq_length) -> Rows:
    group = len(choices[0])
    encoded = tokenizer(
        [prompt for prompt in prompts for _ in range(group)],
        [choice for row in choices for choice in row],
        truncation=True,
        max_length=max_seq_length,
    )
    return Rows(encoded["input_ids"], encoded["token_type_ids"], {"labels": labels}, group=group)


def encode_words(tokenizer, words, tag_ids, max_seq_length) -> tuple[Rows, list[tuple[int, int]]]:
    """Cuts long sentences between words; a word's first piece has the label.

    Returns:
        The rows, and for each row the sentence and the index of its first word.
    """
    room = max_seq_length - 2
    ids, labels, origins = [], [], []
    for sentence, encoded in enumerate(tokenizer(words, is_split_into_words=True, add_special_tokens=False).encodings):
        pieces = [[] for _ in words[sentence]]
        for word, piece in zip(encoded.word_ids, encoded.ids, strict=True):
            pieces[word].append(piece)
        pieces = [word if 0 < len(word) <= room else [tokenizer.unk_token_id] for word in pieces]
        row, row_labels = [], []
        for place, word in enumerate(pieces):
            if row and len(row) + len(word) > room:
                ids.append(row)
                labels.append(row_labels)
                row, row_labels = [], []
            if not row:
                origins.append((sentence, place))
            row = row + word
            row_labels = row_labels + [tag_ids[sentence][place]] + [IGNORED_LABEL] * (len(word) - 1)
        ids.append(row)
        labels.append(row_labels)
    ids = [[tokenizer.cls_token_id, *row, tokenizer.sep_token_id] for row in ids]
    labels = [[IGNORED_LABEL, *row, IGNORED_LABEL] for row in labels]
    return Rows(ids, [[0] * len(row) for row in ids], {}, labels), origins


def encode_questions(tokenizer, questions, max_seq_length) -> tuple[Rows, list[dict]]:
    """Cuts contexts into overlapping windows as google-research/bert's run_squad.py does.

    Returns:
        The rows with `start_positions` and `end_positions` ([CLS] if the answer is not in the window), and for each
        window `question` (its number), `offsets` (pieces, 2) of its context pieces in characters, `first` (the column
        of the first piece) and `is_best` (whether a piece has its maximal context in this window).
    """
    all_queries = tokenizer([question["question"] for question in questions], add_special_tokens=False)["input_ids"]
    contexts = tokenizer([question["context"] for question in questions], add_special_tokens=False).encodings
    ids, segments, starts, ends, windows = [], [], [], [], []
    for number, (question, query, context) in enumerate(zip(questions, all_queries, contexts, strict=True)):
        query = query[: examples.MAX_QUERY_LENGTH]
        room = max_seq_length - len(query) - 3
        spans = [(0, min(room, len(context.ids)))]
        while spans[-1][1] < len(context.ids):
            first = spans[-1][0] + min(examples.DOC_STRIDE, room)
            spans.append((first, min(first + room, len(context.ids))))
        offsets = np.array(context.offsets)
        answer = question["answers"][0]
        begin = answer["answer_start"]
        overlaps = np.flatnonzero((offsets[:, 1] > begin) & (offsets[:, 0] < begin + len(answer["text"])))
        best = _best_windows(spans, len(context.ids))
        for window, (first, stop) in enumerate(spans):
            head = [tokenizer.cls_token_id, *query, tokenizer.sep_token_id]
            ids.append([*head, *context.ids[first:stop], tokenizer.sep_token_id])
            segments.append([0] * len(head) + [1] * (stop - first + 1))
            is_inside = len(overlaps) and overlaps[0] >= first and overlaps[-1] < stop
            starts.append(int(overlaps[0] - first + len(head)) if is_inside else 0)
            ends.append(int(overlaps[-1] - first + len(head)) if is_inside else 0)
            windows.append(
                {"question": number, "offsets": offsets[first:stop], "first": len(head)}
                | {"is_best": best[first:stop] == window}
            )
    return Rows(ids, segments, {"start_positions": starts, "end_positions": ends}), windows


def _best_windows(spans, num_pieces):
    """Returns for each piece the window that maximises the smaller of its left and right context."""
    piece = np.arange(num_pieces)
    scores = [
        np.where(
            (piece >= first) & (piece < stop), np.minimum(piece - first, stop - 1 - piece) + 0.01 * (stop - first), -1
        )
        for first, stop in spans
    ]
    return np.argmax(scores, axis=0)


def best_answers(questions, windows, starts, ends) -> dict[str, str]:
    """Returns the answer text of each question id from the logits of the windows' rows."""
    best = {}
    for window, start_logits, end_logits in zip(windows, starts, ends, strict=True):
        # The best positions of the whole row, as in run_squad.py, are reduced to the legal ones afterwards.
        first, stop = window["first"], window["first"] + len(window["offsets"])
        for start in np.argsort(-start_logits, kind="stable")[: examples.N_BEST_SIZE]:
            if not first <= start < stop or not window["is_best"][start - first]:
                continue
            for end in np.argsort(-end_logits, kind="stable")[: examples.N_BEST_SIZE]:
                if not start <= end < min(stop, start + examples.MAX_ANSWER_LENGTH):
                    continue
                score = float(start_logits[start] + end_logits[end])
                if score > best.get(window["question"], (-math.inf,))[0]:
                    offsets = window["offsets"]
                    best[window["question"]] = (score, offsets[start - first][0], offsets[end - first][1])
    return {
        question["id"]: question["context"][best[number][1] : best[number][2]] if number in best else ""
        for number, question in enumerate(questions)
    }


def decayed_and_other_weights(model) -> list[dict]:
    names = [name for name, _ in model.named_parameters()]
    excluded = {name for name in names if name.endswith(".bias") or "LayerNorm" in name}
    groups = {True: [], False: []}
    for name, weight in model.named_parameters():
        groups[name not in excluded].append(weight)
    return [
        {"params": groups[True], "weight_decay": examples.WEIGHT_DECAY},
        {"params": groups[False], "weight_decay": 0.0},
    ]


class Trainer:
    """AdamW with the recipe's schedule; `step` takes a batch and returns the loss.

    Args:
        precision: "float32", or "bfloat16" for autocast, as transformers' Trainer computes with `bf16=True`.
    """

    def __init__(self, model, total_steps: int, precision: str = "float32"):
        self.model = model
        self.autocast = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16")
        self.optimizer = torch.optim.AdamW(
            decayed_and_other_weights(model), lr=examples.PEAK_RATE, eps=1e-8, fused=True
        )
        self.schedule = transformers.get_linear_schedule_with_warmup(
            self.optimizer, math.ceil(examples.WARMUP_PART * total_steps), total_steps
        )
        model.train()

    def step(self, batch) -> float:
        with self.autocast:
            loss = self.model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), examples.MAX_GRADIENT_NORM)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        return loss.item()


def train(model, rows: Rows, recipe: Recipe, seed: int, precision: str) -> dict:
    """Returns `epoch_seconds`, `cpu_seconds`, `epoch_losses`, `steps`, `tokens` and `padded_tokens` (of all epochs)."""
    steps_per_epoch = math.ceil(len(rows.lengths) / recipe.batch_size)
    trainer = Trainer(model, steps_per_epoch * recipe.epochs, precision)
    seconds, losses, padded = [], [], 0
    cpu_begin = time.process_time()
    for epoch in range(recipe.epochs):
        begin = time.perf_counter()
        epoch_losses = []
        batches = length_grouped_batches(rows.lengths, recipe.batch_size, np.random.default_rng([seed, epoch]))
        for number, places in enumerate(batches):
            batch = rows.batch(places)
            padded += batch["input_ids"].numel()
            epoch_losses.append(trainer.step(batch))
            if number % 100 == 99:
                print(
                    f"epoch {epoch + 1} step {number + 1}/{len(batches)} loss {np.mean(epoch_losses):.4f}", flush=True
                )
        seconds.append(time.perf_counter() - begin)
        losses.append(float(np.mean(epoch_losses)))
    return {
        "epoch_seconds": seconds,
        "cpu_seconds": time.process_time() - cpu_begin,
        "epoch_losses": losses,
        "steps": steps_per_epoch * recipe.epochs,
        "tokens": rows.num_tokens * recipe.epochs,
        "padded_tokens": padded,
    }


@torch.inference_mode()
def outputs_of(model, rows: Rows, name: str = "logits") -> list[np.ndarray]:
    """Returns one output per example, in their order; outputs per token are cut to the row's length."""
    model.eval()
    order = np.argsort(-rows.lengths, kind="stable")
    result = [None] * len(order)
    for first in range(0, len(order), PREDICTION_BATCH):
        places = order[first : first + PREDICTION_BATCH]
        batch = rows.batch(places)
        batch = {key: batch[key] for key in ("input_ids", "token_type_ids", "attention_mask")}
        outputs = model(**batch)
        values = [outputs[key].float().numpy() for key in name.split("+")]
        for number, place in enumerate(places):
            result[place] = np.stack([value[number] for value in values]) if len(values) > 1 else values[0][number]
    return result


def training_rows(arguments, recipe, tokenizer):
    """Returns a new model, its training rows, and the labels of tagging."""
    labels = None
    if arguments.task == "WNUT-17":
        words, tags = examples.read_tagged_sentences(arguments.data, "train")
        labels = sorted({tag for sentence in tags for tag in sentence})
        tag_ids = [[labels.index(tag) for tag in sentence] for sentence in tags]
        rows, _ = encode_words(tokenizer, words, tag_ids, recipe.max_seq_length)
        model_class, options = transformers.BertForTokenClassification, {"num_labels": len(labels)}
    elif arguments.task == "SQuAD":
        rows, _ = encode_questions(tokenizer, examples.read_questions(arguments.data, "train"), recipe.max_seq_length)
        model_class, options = transformers.BertForQuestionAnswering, {}
    elif arguments.task == "CODAH":
        columns = examples.read_multiple_choice(arguments.data, "train")
        rows = encode_choices(tokenizer, *columns, recipe.max_seq_length)
        model_class, options = transformers.BertForMultipleChoice, {}
    else:
        columns = examples.read_classification(arguments.data, arguments.task, "train")
        rows = encode_texts(tokenizer, *columns, recipe.max_seq_length)
        model_class, options = transformers.BertForSequenceClassification, {"num_labels": 2}
    return model_class.from_pretrained(arguments.model, **options), rows, labels


def predictions(model, labels, arguments, recipe, tokenizer) -> dict:
    """Returns the model's predictions for the held-out data: split -> numbers, tags or texts."""
    if arguments.task == "WNUT-17":
        return {split: predicted_tags(model, labels, split, arguments, recipe, tokenizer) for split in ("dev", "test")}
    if arguments.task == "SQuAD":
        questions = examples.read_questions(arguments.data, "dev")
        rows, windows = encode_questions(tokenizer, questions, recipe.max_seq_length)
        outputs = outputs_of(model, rows, "start_logits+end_logits")
        cut = [values[:, : len(ids)] for values, ids in zip(outputs, rows.ids, strict=True)]
        return {"dev": best_answers(questions, windows, [values[0] for values in cut], [values[1] for values in cut])}
    if arguments.task == "CODAH":
        columns = examples.read_multiple_choice(arguments.data, "dev")
        rows = encode_choices(tokenizer, *columns, recipe.max_seq_length)
    else:
        columns = examples.read_classification(arguments.data, arguments.task, "dev")
        rows = encode_texts(tokenizer, *columns, recipe.max_seq_length)
    return {"dev": [int(row.argmax()) for row in outputs_of(model, rows)]}


def predicted_tags(model, labels, split, arguments, recipe, tokenizer) -> list[list[str]]:
    words, _ = examples.read_tagged_sentences(arguments.data, split)
    rows, origins = encode_words(tokenizer, words, [[0] * len(row) for row in words], recipe.max_seq_length)
    found = [[] for _ in words]
    for (sentence, _), logits, row in zip(origins, outputs_of(model, rows), rows.token_labels, strict=True):
        best = logits[: len(row)].argmax(axis=-1)
        found[sentence] += [labels[label] for label, given in zip(best, row, strict=True) if given != IGNORED_LABEL]
    return found


def train_on_request(model, rows: Rows, recipe: Recipe, steps: int, precision: str) -> None:
    """Reads a number of steps from each line of input, takes these steps, and writes their time and tokens as JSON."""
    batches = length_grouped_batches(rows.lengths, recipe.batch_size, np.random.default_rng([1, 0]))
    trainer = Trainer(model, len(batches), precision)
    for number, _ in enumerate(sys.stdin):
        places = batches[number * steps : (number + 1) * steps]
        begin = time.perf_counter()
        padded = 0
        for some in places:
            batch = rows.batch(some)
            padded += batch["input_ids"].numel()
            trainer.step(batch)
        seconds = time.perf_counter() - begin
        tokens = sum(rows.tokens_of(some) for some in places)
        report = {"seconds": seconds, "tokens": tokens, "padded_tokens": padded, "all_tokens": rows.num_tokens}
        print(json.dumps(report), flush=True)


def main():
    arguments = examples.parser_of_side(__doc__).parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    recipe = RECIPES[arguments.task]
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    model, rows, labels = training_rows(arguments, recipe, tokenizer)
    if arguments.steps_on_request:
        train_on_request(model, rows, recipe, arguments.steps_on_request, arguments.precision)
        return
    measured = train(model, rows, recipe, arguments.seed, arguments.precision)
    side = f"transformers {transformers.__version__}, torch {torch.__version__}"
    examples.write_result(arguments, side, measured, predictions(model, labels, arguments, recipe, tokenizer))


if __name__ == "__main__":
    main()
