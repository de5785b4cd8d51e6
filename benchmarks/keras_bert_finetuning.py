"""Fine-tunes a BERT with this package, on texts and with its defaults, and writes its predictions.

The flags and the file written are those of `transformers_finetuning`:

    python -m benchmarks.keras_bert_finetuning --model FOLDER --data FOLDER --task MRPC --seed 1 --output mrpc-1.json

With --optimizer=same the model is compiled with the learning rates and the epsilon of transformers. With
--optimizer=default it is not compiled and uses the paper's recipe: AdamW, 5e-5, a tenth of warm-up, and linear decay
as in Google's code, where the decay is counted from step 0.
"""

import json
import math
import os
import sys
import time

from benchmarks import finetuning_examples as examples
from benchmarks.finetuning_examples import RECIPES


def train(model, recipe, seed: int, x, y) -> dict:
    """Returns `epoch_seconds`, `fit_seconds` with tokenising and tracing, `cpu_seconds` and `epoch_losses`."""
    import keras

    clock = {"begin": 0.0, "seconds": []}
    callback = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: clock.update(begin=time.perf_counter()),
        on_epoch_end=lambda epoch, logs: clock["seconds"].append(time.perf_counter() - clock["begin"]),
    )
    begin, cpu_begin = time.perf_counter(), time.process_time()
    history = model.fit(
        x,
        y,
        batch_size=recipe.batch_size,
        epochs=recipe.epochs,
        max_seq_length=recipe.max_seq_length,
        seed=seed,
        callbacks=[callback],
        verbose=2,
    )
    return {
        "epoch_seconds": clock["seconds"],
        "fit_seconds": time.perf_counter() - begin,
        "cpu_seconds": time.process_time() - cpu_begin,
        "epoch_losses": history.history["loss"],
    }


def model_and_texts(arguments):
    """Returns a new model and its training texts and labels, in the form that its `fit` takes."""
    from keras_bert import MultipleChoice, SequenceClassifier, SpanClassifier, TokenClassifier

    if arguments.task == "WNUT-17":
        words, tags = examples.read_tagged_sentences(arguments.data, "train")
        labels = sorted({tag for sentence in tags for tag in sentence})
        return TokenClassifier.from_pretrained(arguments.model, labels=labels), words, tags
    if arguments.task == "SQuAD":
        model = SpanClassifier.from_pretrained(arguments.model)
        questions = examples.read_questions(arguments.data, "train")
        return model, question_columns(questions), [question["answers"][0] for question in questions]
    if arguments.task == "CODAH":
        *texts, labels = examples.read_multiple_choice(arguments.data, "train")
        return MultipleChoice.from_pretrained(arguments.model), tuple(texts), labels
    model = SequenceClassifier.from_pretrained(arguments.model, labels=["0", "1"])
    return model, *classification_columns(arguments, "train")


def question_columns(questions) -> tuple[list[str], list[str]]:
    return [question["question"] for question in questions], [question["context"] for question in questions]


def classification_columns(arguments, split: str):
    first, second, labels = examples.read_classification(arguments.data, arguments.task, split)
    return (first if second is None else (first, second)), labels


def predictions(model, arguments, max_seq_length: int) -> dict:
    """Returns the model's predictions for the held-out data: split -> numbers, tags or texts."""
    if arguments.task == "WNUT-17":
        words = {split: examples.read_tagged_sentences(arguments.data, split)[0] for split in ("dev", "test")}
        answers = {split: model.predict(words[split], max_seq_length=max_seq_length) for split in words}
        return {split: [list(answer.tags) for answer in answers[split]] for split in words}
    if arguments.task == "SQuAD":
        questions = examples.read_questions(arguments.data, "dev")
        answers = model.predict(question_columns(questions), max_seq_length=max_seq_length)
        return {"dev": {question["id"]: answer.text for question, answer in zip(questions, answers, strict=True)}}
    if arguments.task == "CODAH":
        prompts, choices, _ = examples.read_multiple_choice(arguments.data, "dev")
        return {"dev": [answer.choice for answer in model.predict((prompts, choices), max_seq_length=max_seq_length)]}
    texts, _ = classification_columns(arguments, "dev")
    return {"dev": [int(answer.label) for answer in model.predict(texts, max_seq_length=max_seq_length)]}


def compile_as_transformers(model, recipe, x, y) -> None:
    """Compiles a model with the rates and the epsilon of `transformers_finetuning`."""
    from keras_bert.optimization import AdamW, WarmupTrapezoid
    from keras_bert.tasks.fitting import text_task

    task = text_task(model)
    num_rows = len(task.rows(task.examples(x, y), recipe.max_seq_length).rows)
    num_steps = math.ceil(num_rows / recipe.batch_size) * recipe.epochs
    num_warmup_steps = math.ceil(examples.WARMUP_PART * num_steps)
    # Without a flat part: the rate rises to the peak, then falls to 0.
    rates = WarmupTrapezoid(
        examples.PEAK_RATE, num_steps, num_warmup_steps, num_decay_steps=num_steps - num_warmup_steps
    )
    model.compile(optimizer=AdamW(rates, epsilon=1e-8), jit_compile=False)


def train_on_request(model, x, y, recipe, steps: int) -> None:
    """Reads a number of steps from each line of input, takes these steps, and writes their time and tokens as JSON."""
    import keras

    from keras_bert.optimization import AdamW, WarmupLinearDecay
    from keras_bert.records.datasets import rows_dataset
    from keras_bert.records.token_rows import RowBatches
    from keras_bert.tasks.fitting import text_task

    task = text_task(model)
    rows = task.rows(task.examples(x, y), recipe.max_seq_length).rows
    order = RowBatches(rows, recipe.batch_size, seed=1).order()

    class Turns(keras.callbacks.Callback):
        """Waits for a line of input before each turn and reports after it; all turns are in one `fit`."""

        def on_train_batch_begin(self, batch, logs=None):
            if batch % steps == 0:
                sys.stdin.readline()
                self.begin = time.perf_counter()

        def on_train_batch_end(self, batch, logs=None):
            if (batch + 1) % steps:
                return
            seconds = time.perf_counter() - self.begin
            masks = [rows.batch(places)["input_mask"] for places in order[batch + 1 - steps : batch + 1]]
            report = {"seconds": seconds, "tokens": sum(int(mask.sum()) for mask in masks)}
            report |= {"padded_tokens": sum(mask.size for mask in masks), "all_tokens": int(rows.splits[-1])}
            print(json.dumps(report), flush=True)

    model.compile(
        optimizer=AdamW(WarmupLinearDecay(examples.PEAK_RATE, len(order), len(order) // 10)), jit_compile=False
    )
    model.fit(
        rows_dataset(rows, recipe.batch_size, shuffle=True, seed=1),
        steps_per_epoch=len(order) // steps * steps,
        verbose=0,
        callbacks=[Turns()],
    )


def main():
    parser = examples.parser_of_side(__doc__)
    parser.add_argument("--optimizer", choices=["same", "default"], default="same")
    arguments = parser.parse_args()
    os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = str(arguments.threads)

    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(arguments.seed)
    if arguments.precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    recipe = RECIPES[arguments.task]
    model, x, y = model_and_texts(arguments)
    if arguments.steps_on_request:
        train_on_request(model, x, y, recipe, arguments.steps_on_request)
        return
    if arguments.optimizer == "same":
        compile_as_transformers(model, recipe, x, y)
    measured = train(model, recipe, arguments.seed, x, y)
    side = f"keras_bert, Keras {keras.__version__}, TensorFlow {tf.__version__}"
    examples.write_result(arguments, side, measured, predictions(model, arguments, recipe.max_seq_length))


if __name__ == "__main__":
    main()
