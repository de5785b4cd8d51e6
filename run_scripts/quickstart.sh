#!/usr/bin/env bash
# Every stage on real text, in one file:
#   raw text -> vocabulary -> records -> BERT -> classifier -> SavedModel -> an answer
#
#   bash run_scripts/quickstart.sh [OUTPUT_FOLDER [INPUT]]                         in a clone
#   keras-bert-quickstart [--output_dir=OUTPUT_FOLDER] [--input_file=INPUT]        where the package is installed
#
# The text is the documentation of the Python packages on this machine. With INPUT (a file, folder, glob or tfds:NAME), the
# vocabulary and the pre-training use that text instead; the classifier's data stays the same.
#
# The settings below are chosen for six minutes of training on two cores: a small vocabulary, twice the usual share of
# masked words, no dropout, a high learning rate. A real model has more layers, longer sequences, a hundred times the
# steps, and the usual settings.
set -euo pipefail

OUTPUT=${1:-quickstart}
INPUT=${2:-}
VOCAB_SIZE=${VOCAB_SIZE:-4000}
MAX_SEQ_LENGTH=${MAX_SEQ_LENGTH:-64}
DUPE_FACTOR=${DUPE_FACTOR:-5}
NUM_TRAIN_STEPS=${NUM_TRAIN_STEPS:-2500}
NUM_TRAIN_EPOCHS=${NUM_TRAIN_EPOCHS:-10}
NUM_LABELLED=${NUM_LABELLED:-400}
SEED=${SEED:-1}
NUM_SHARDS=10

if [ -e "$OUTPUT" ]; then
  echo "error: $OUTPUT exists. Remove it (rm -r $OUTPUT) or name another folder: make quickstart OUTPUT=another, or" \
    "keras-bert-quickstart --output_dir=another" >&2
  exit 1
fi
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Only a clone is added to the path. If the package is installed from a wheel, the folder above is site-packages, which
# is on the path already.
if [ -f "$project/setup.py" ]; then
  export PYTHONPATH="$project${PYTHONPATH:+:$PYTHONPATH}"
fi
# keras-bert-quickstart sets KERAS_BERT_PYTHON to its own Python. Otherwise the first Python on the path runs every stage.
python() { command "${KERAS_BERT_PYTHON:-python}" "$@"; }
stage() { printf '\n=== %d:%02d  %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

if [ -n "$INPUT" ]; then
  python -m run_scripts.quickstart_text --input_file="$INPUT" --num_shards="$NUM_SHARDS"
fi

stage "1 of 8  Raw text: the documentation of the packages on this machine"
python -m run_scripts.documentation_corpus --output_dir="$OUTPUT/text" --num_train="$NUM_LABELLED"
INPUT=${INPUT:-$OUTPUT/text/corpus.txt}

stage "2 of 8  A WordPiece vocabulary of $VOCAB_SIZE tokens"
python -m data_prep.build_vocabulary --input_file="$INPUT" --output_file="$OUTPUT/vocab.txt" --vocab_size="$VOCAB_SIZE"

stage "3 of 8  Records: sentence pairs with masked words, no text in two files"
python -m data_prep.create_pretraining_data --input_file="$INPUT" --split_sentences --vocab_file="$OUTPUT/vocab.txt" \
  --output_dir="$OUTPUT/records" --num_shards="$NUM_SHARDS" --num_processes=2 --max_seq_length="$MAX_SEQ_LENGTH" \
  --masked_lm_prob=0.3 --max_predictions_per_seq=20 --dupe_factor="$DUPE_FACTOR" --random_seed="$SEED"

stage "4 of 8  Pre-training a BERT-tiny; the last file of records is kept for its evaluation"
cat >"$OUTPUT/bert_config.json" <<JSON
{
  "vocab_size": $(wc -l <"$OUTPUT/vocab.txt"),
  "hidden_size": 128,
  "num_hidden_layers": 2,
  "num_attention_heads": 2,
  "intermediate_size": 512,
  "max_position_embeddings": $MAX_SEQ_LENGTH,
  "initializer_range": 0.04,
  "hidden_dropout_prob": 0.0,
  "attention_probs_dropout_prob": 0.0
}
JSON
python -m run_scripts.run_pretraining --input_file="$OUTPUT/records/*-0000[0-8]-of-*.tfrecord" \
  --eval_input_file="$OUTPUT/records/*-00009-of-*.tfrecord" --bert_config_file="$OUTPUT/bert_config.json" \
  --vocab_file="$OUTPUT/vocab.txt" --output_dir="$OUTPUT/pretraining" --do_train --do_eval --train_batch_size=32 \
  --eval_batch_size=32 --learning_rate=2e-3 --adam_beta_2=0.98 --num_train_steps="$NUM_TRAIN_STEPS" \
  --num_warmup_steps=$((NUM_TRAIN_STEPS / 10)) --random_seed="$SEED"

fine_tune() { # NAME FLAGS...
  python -m run_scripts.run_classifier --train_file="$OUTPUT/text/train.tsv" --dev_file="$OUTPUT/text/test.tsv" \
    --output_dir="$OUTPUT/$1" --do_train --do_eval --max_seq_length="$MAX_SEQ_LENGTH" --train_batch_size=32 \
    --learning_rate=5e-4 --num_train_epochs="$NUM_TRAIN_EPOCHS" --random_seed="$SEED" "${@:2}"
}
stage "5 of 8  Fine-tuning: which library does a paragraph document?"
fine_tune classifier --init_checkpoint="$OUTPUT/pretraining/model"

stage "6 of 8  The same without pre-training, for comparison"
fine_tune classifier_from_scratch --bert_config_file="$OUTPUT/bert_config.json" --vocab_file="$OUTPUT/vocab.txt"

stage "7 of 8  SavedModels for TensorFlow Serving: text in, answer out"
python -m run_scripts.export_model --model_dir="$OUTPUT/classifier/model" --output_dir="$OUTPUT/saved_models/library"
python -m run_scripts.export_model --model_dir="$OUTPUT/pretraining/model" --output_dir="$OUTPUT/saved_models/fill_mask"
python -m run_scripts.ask_saved_model --saved_model="$OUTPUT/saved_models/library" \
  --text="Returns the gradient of each trainable variable recorded on the tape." \
  --text="The array is broadcast along the given axis without copying its elements."
python -m run_scripts.ask_saved_model --saved_model="$OUTPUT/saved_models/fill_mask" \
  --text="Returns a [MASK] of the same shape and type as the input." \
  --text="If the file does not [MASK], an exception is raised."

stage "8 of 8  What came of it"
python -m run_scripts.quickstart_report --output_dir="$OUTPUT"
printf '\nDone in %d:%02d. To serve the classifier: python -m run_scripts.serve %s\n' $((SECONDS / 60)) \
  $((SECONDS % 60)) "$OUTPUT/saved_models/library"
