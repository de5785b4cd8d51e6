"""Fine-tunes a BERT with this package, on texts and with nothing but its defaults, and writes its predictions.

The flags and the file written are those of `transformers_finetuning`:

    python -m benchmarks.keras_bert_finetuning --model FOLDER --data FOLDER --task MRPC --seed 1 --output mrpc-1.json

A model that was not compiled takes the paper's recipe by itself: AdamW, 5e-5, a tenth of warm-up, linear decay.
"""

import argparse
import json
import os
import pathlib
import sys
import time

from benchmarks import finetuning_examples as examples
from benchmarks.finetuning_examples import RECIPES


def train(model, recipe, seed: int, x, y) -> dict:
    """Returns `epoch_seconds`, `cpu_seconds`, `epoch_losses`, `fit_seconds` and, if the texts were rows, no tokens."""
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


def run_classification(arguments, recipe):
    from keras_bert import BertSequenceClassifier

    model = BertSequenceClassifier.from_pretrained(arguments.model, labels=["0", "1"])

    def texts(split):
        first, second, labels = examples.read_classification(arguments.data, arguments.task, split)
        return (first if second is None else (first, second)), labels

    measured = train(model, recipe, arguments.seed, *texts("train"))
    answers = model.predict(texts("dev")[0], max_seq_length=recipe.max_seq_length)
    return measured, {"dev": [int(answer.label) for answer in answers]}


RUNS = {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, help="checkpoint to start from, of any format")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder with glue, wnut17, squad and codah")
    parser.add_argument("--task", choices=sorted(RECIPES), required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = str(arguments.threads)

    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(arguments.seed)
    measured, predictions = RUNS.get(arguments.task, run_classification)(arguments, RECIPES[arguments.task])
    result = {
        "side": f"keras_bert, Keras {keras.__version__}, TensorFlow {tf.__version__}",
        "task": arguments.task,
        "seed": arguments.seed,
        "threads": arguments.threads,
        **measured,
        "predictions": predictions,
    }
    partial = arguments.output.with_suffix(".partial")
    partial.write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")
    os.replace(partial, arguments.output)


if __name__ == "__main__":
    sys.exit(main())
