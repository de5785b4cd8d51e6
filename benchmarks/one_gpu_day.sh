#!/usr/bin/env bash
# A BERT of today on one GPU in one day: text -> vocabulary -> records -> pre-training -> fine-tuning -> GLUE scores
#
#   bash benchmarks/one_gpu_day.sh TEXT GLUE OUTPUT
#
# TEXT: files, folders, patterns or tfds:NAME, separated by commas. GLUE: a folder with folders of tasks, such as CoLA.
# OUTPUT: a new folder. The scores are written to OUTPUT/scores.md. The first python on the path runs every stage. It
# needs this project with the extra jax.
#
# If the run is stopped or killed, the same command goes on where it was. docs/one_gpu_day.md explains the choices.
# Sources: Cramming (arXiv 2212.14034), MosaicBERT (2312.17482), ModernBERT (2412.13663), NeoBERT (2502.19587).
# The full size was never run.
set -euo pipefail
shopt -s globstar

fail() { printf 'error: %s\n' "$*" >&2 && exit 1; }
[ $# = 3 ] || fail "Expected: bash benchmarks/one_gpu_day.sh TEXT GLUE OUTPUT. Received: $# arguments"
TEXT=$1 GLUE=$2 OUTPUT=$3

# The backend that is fastest here, and has fused attention.
export KERAS_BACKEND=${KERAS_BACKEND:-jax}
# The day. The preparation of text and fine-tuning do not count (Cramming).
HOURS=${HOURS:-22}
LONG_HOURS=${LONG_HOURS:-2} # 0: no long rows
# 70,000 updates of 4,096 rows of 128 tokens (MosaicBERT). Choose what your GPU makes in HOURS.
STEPS=${STEPS:-70000}
BATCH=${BATCH:-4096}
LENGTH=${LENGTH:-128}
# A tenth of the day has rows of 512 tokens (BERT, section A.2), with as many tokens in a batch.
LONG_STEPS=${LONG_STEPS:-5000}
LONG_LENGTH=${LONG_LENGTH:-512}
# Small batches first: 4 % of the tokens (ModernBERT: 3 %).
GROWTH=${GROWTH:-512,1024,2048}
GROWTH_STEPS=${GROWTH_STEPS:-$((STEPS / 20))}
# 2^15 tokens (Cramming), a multiple of 64, with which GPUs compute faster (MosaicBERT).
VOCAB_SIZE=${VOCAB_SIZE:-32768}
# BERT-base. The three matrices of a gated part, 2,048 wide, are as large as the two of BERT (NeoBERT).
LAYERS=${LAYERS:-12}
WIDTH=${WIDTH:-768}
HEADS=${HEADS:-12}
INNER=${INNER:-2048}
# ModernBERT's rate, with its optimizer. "muon" is the other choice (arXiv 2502.16982).
OPTIMIZER=${OPTIMIZER:-stable_adamw}
RATE=${RATE:-8e-4}
LONG_RATE=${LONG_RATE:-3e-4}
# For GPUs of before 2020: float16.
PRECISION=${PRECISION:-bfloat16}
SEED=${SEED:-1}
# At most five passes over the examples of a task, and the same settings for all tasks (Cramming).
EPOCHS=${EPOCHS:-5}
# These may change when a run goes on: a batch is computed in PARTS parts that fit into the memory of the GPU, and a
# checkpoint is saved every SAVE_STEPS updates.
PARTS=${PARTS:-16}
SAVE_STEPS=${SAVE_STEPS:-500}
NUM_SHARDS=100 # the last one, 1 % of the text, is held out

# Bad input ends the run here, before any work.
IFS=, read -ra patterns <<<"$TEXT"
for pattern in "${patterns[@]}"; do
  case $pattern in
    tfds:* | *://*) ;; # the commands find these
    *) compgen -G "$pattern" >/dev/null || fail "TEXT: there is no file or folder $pattern" ;;
  esac
done
[ -d "$GLUE" ] || fail "GLUE: there is no folder $GLUE"
tasks=()
for task in CoLA SST-2 MRPC STS-B QQP MNLI QNLI RTE WNLI; do
  [ -d "$GLUE/$task" ] || continue
  files=$(ls "$GLUE/$task")
  [[ $files == *train* ]] || fail "GLUE: $GLUE/$task has no file to train on, as train.tsv"
  [[ $files =~ dev|validation|msr_paraphrase_test ]] || fail "GLUE: $GLUE/$task has no file to evaluate on, as dev.tsv"
  tasks+=("$task")
done
((${#tasks[@]})) || fail "GLUE: $GLUE has no folder of a task: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE or WNLI"
for tool in python flock setpriv; do
  command -v "$tool" >/dev/null || fail "There is no $tool on the path. flock and setpriv are in util-linux."
done
python -c 'import sys, importlib.util as found; sys.exit(not all(map(found.find_spec, sys.argv[1:])))' tensorflow \
  "$KERAS_BACKEND" || fail "$(command -v python) lacks tensorflow or $KERAS_BACKEND. Install them: pip install '.[jax]'"
long_batch=$((BATCH * LENGTH / LONG_LENGTH))
for size in ${GROWTH//,/ } "$BATCH" "$long_batch"; do
  ((size > 0 && size % PARTS == 0)) || fail "A batch of $size rows cannot be computed in PARTS=$PARTS equal parts."
done

settings() {
  for name in TEXT GLUE HOURS LONG_HOURS STEPS BATCH LENGTH LONG_STEPS LONG_LENGTH GROWTH GROWTH_STEPS VOCAB_SIZE \
    LAYERS WIDTH HEADS INNER OPTIMIZER RATE LONG_RATE PRECISION SEED EPOCHS; do
    echo "$name=${!name}"
  done
}
if [ -f "$OUTPUT/settings.txt" ]; then
  former=$(settings | diff "$OUTPUT/settings.txt" - | sed -n 's/^< //p' | paste -sd ' ' -) || true
  [ -z "$former" ] || fail "$OUTPUT holds a run of other settings: $former. Give these, or another OUTPUT."
elif [ -n "$(ls -A "$OUTPUT" 2>/dev/null)" ]; then
  fail "$OUTPUT is not empty and holds no run of this script. Give another OUTPUT."
fi
mkdir -p "$OUTPUT"
settings >"$OUTPUT/settings.txt"

# The commands of this run hold the lock too. If only this script is killed, its command gets SIGTERM. A training then
# saves a checkpoint.
exec 9>"$OUTPUT/.lock"
flock --nonblock 9 || { echo "Waiting for a command of an earlier start in $OUTPUT" >&2 && flock 9; }
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PYTHONPATH="$project${PYTHONPATH:+:$PYTHONPATH}"
python() { setpriv --pdeathsig TERM python "$@"; }
stage() { printf '\n=== %d:%02d  %s\n' $((SECONDS / 3600)) $((SECONDS / 60 % 60)) "$*"; }
once() { # FILE COMMAND...: runs a command, unless the file that it writes last is there
  if [ -e "$1" ]; then echo "$1 is there"; else "${@:2}"; fi
}

stage "1 of 6  A vocabulary of $VOCAB_SIZE tokens"
# Uncased WordPiece (Cramming, MosaicBERT).
once "$OUTPUT/vocab.txt" python -m data_prep.build_vocabulary --input_file="$TEXT" --output_file="$OUTPUT/vocab.txt" \
  --vocab_size="$VOCAB_SIZE"

stage "2 of 6  Records of $LENGTH and $LONG_LENGTH tokens"
# Two filters of documents: text that the vocabulary compresses badly (Cramming, section 4.4), and near-duplicates
# (arXiv 2406.17557). There is no sentence task (RoBERTa, arXiv 1907.11692). Lines are cut where a row ends (Cramming),
# and what is short shares a row (ModernBERT), which leaves little padding. Masks are drawn anew in each pass (RoBERTa).
records() { # FOLDER LENGTH
  once "$1/manifest.json" python -m data_prep.create_pretraining_data --input_file="$TEXT" \
    --vocab_file="$OUTPUT/vocab.txt" --tokenized_corpus="$OUTPUT/tokens" --output_dir="$1" --num_shards="$NUM_SHARDS" \
    --max_tokens_per_character=0.3 --drop_near_duplicates --sentence_task=none --max_seq_length="$2" \
    --max_sequences_per_row=8 --dynamic_masking --dupe_factor=1 --random_seed="$SEED"
}
records "$OUTPUT/records" "$LENGTH"
[ "$LONG_HOURS" = 0 ] || records "$OUTPUT/long_records" "$LONG_LENGTH"

stage "3 of 6  Pre-training on $LENGTH tokens, at most $HOURS hours"
# NeoBERT's layers: rotary positions, RMSNorm before the parts, gated SiLU, no biases. The table of tokens is used for
# the output too, and dropout is 0 in pre-training and 0.1 before the last layer of a task (Cramming).
once "$OUTPUT/bert_config.json" python - "$OUTPUT" "$LAYERS" "$WIDTH" "$HEADS" "$INNER" "$LONG_LENGTH" <<'PYTHON'
import sys
from keras_bert.config import BertConfig

folder, *numbers = sys.argv[1:]
layers, width, heads, inner, positions = map(int, numbers)
with open(f"{folder}/vocab.txt", encoding="utf-8") as file:
    vocab_size = len(file.readlines())
sizes = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads, "intermediate_size": inner}
other = {"max_position_embeddings": positions, "tie_word_embeddings": True, "hidden_dropout_prob": 0.1}
BertConfig.from_size("neobert", vocab_size, **sizes, **other).save(f"{folder}/bert_config.json")
PYTHON

# The rate rises in 6 % of the run, then falls linearly to 0 (MosaicBERT).
pretrain() { # RUN RECORDS STEPS BATCH RATE HOURS FLAGS...
  once "$OUTPUT/$1/eval_results.txt" python -m run_scripts.run_pretraining --output_dir="$OUTPUT/$1" \
    --input_file="$2/*-000[0-8]?-of-*,$2/*-0009[0-8]-of-*" --eval_input_file="$2/*-00099-of-*" --do_train --do_eval \
    --num_train_steps="$3" --num_warmup_steps="$(($3 * 6 / 100))" --train_batch_size="$4" --learning_rate="$5" \
    --max_train_hours="$6" --optimizer="$OPTIMIZER" --adam_beta_2=0.98 --precision="$PRECISION" --random_seed="$SEED" \
    --gradient_accumulation_steps="$PARTS" --save_checkpoints_steps="$SAVE_STEPS" --eval_batch_size=64 "${@:7}"
}
# 30 % of the tokens are masked (MosaicBERT, ModernBERT), at the end 15 % (arXiv 2208.10806). Megatron's initialisation
# (ModernBERT; arXiv 1909.08053): rotary encoders have it anyway; it is named for those who choose another.
pretrain pretraining "$OUTPUT/records" "$STEPS" "$BATCH" "$RATE" "$HOURS" --batch_growth="$GROWTH" \
  --batch_growth_steps="$GROWTH_STEPS" --masked_lm_prob=0.3 --masked_lm_prob_end=0.15 --initialization=megatron \
  --bert_config_file="$OUTPUT/bert_config.json" --vocab_file="$OUTPUT/vocab.txt"
model=$OUTPUT/pretraining/model

stage "4 of 6  Pre-training on $LONG_LENGTH tokens, at most $LONG_HOURS hours"
# A run of its own, since --max_train_hours is for rows of one length. From 512 tokens on, JAX has fused attention.
if [ "$LONG_HOURS" != 0 ]; then
  pretrain long_pretraining "$OUTPUT/long_records" "$LONG_STEPS" "$long_batch" "$LONG_RATE" "$LONG_HOURS" \
    --masked_lm_prob=0.15 --init_checkpoint="$model"
  model=$OUTPUT/long_pretraining/model
fi

stage "5 of 6  Fine-tuning on ${tasks[*]}"
# Batches of 16, a rate of 4e-5 and its cosine for all tasks (Cramming).
for task in "${tasks[@]}"; do
  once "$OUTPUT/glue/$task/eval_results.txt" python -m run_scripts.run_classifier --task_name="$task" \
    --data_dir="$GLUE/$task" --init_checkpoint="$model" --output_dir="$OUTPUT/glue/$task" --do_train --do_eval \
    --max_seq_length="$LENGTH" --num_train_epochs="$EPOCHS" --train_batch_size=16 --eval_batch_size=64 \
    --learning_rate=4e-5 --learning_rate_schedule=cosine --precision="$PRECISION" --random_seed="$SEED"
done

stage "6 of 6  The scores"
python -m benchmarks.glue_table --output_dir="$OUTPUT"
