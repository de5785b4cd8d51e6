#!/usr/bin/env bash
# BERT's recipe of pre-training beside ModernBERT's: the same text, vocabulary, encoder, rows and updates; three seeds.
#
#   bash benchmarks/recipes.sh OUTPUT_FOLDER [SEED...]
#
# BERT: pairs with the next-sentence task, 15 % masks that are stored, linear decay. Modern: rows filled with whole
# sentences, 30 % masks drawn in every epoch, trapezoidal schedule. Prints the masked-LM loss on held-out documents (whole
# sentences, 15 % masks, the same file for both), and the accuracy of the quickstart's classifier. Two layers of width
# 128, 2,500 updates; this takes about 20 minutes on two cores.
set -euo pipefail

OUTPUT=$1
shift
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PYTHONPATH="$project${PYTHONPATH:+:$PYTHONPATH}"
STEPS=${STEPS:-2500}
mkdir -p "$OUTPUT"

records() { # INPUT OUTPUT_DIR SHARDS FLAGS...
  python -m data_prep.create_pretraining_data --input_file="$1" --split_sentences --vocab_file="$OUTPUT/vocab.txt" \
    --output_dir="$2" --num_shards="$3" --num_processes=2 --max_seq_length=64 "${@:4}"
}

prepare() {
  python -m run_scripts.documentation_corpus --output_dir="$OUTPUT/text" --num_train=400
  python - "$OUTPUT/text" <<'PYTHON'
import pathlib, sys

folder = pathlib.Path(sys.argv[1])
documents = (folder / "corpus.txt").read_text("utf-8").split("\n\n")
for name, part in (("train", documents[: len(documents) * 9 // 10]), ("held_out", documents[len(documents) * 9 // 10 :])):
    (folder / f"{name}.txt").write_text("\n\n".join(part) + "\n", "utf-8")
PYTHON
  python -m data_prep.build_vocabulary --input_file="$OUTPUT/text/train.txt" --vocab_size=4000 \
    --output_file="$OUTPUT/vocab.txt"
  cat >"$OUTPUT/bert_config.json" <<JSON
{"vocab_size": $(wc -l <"$OUTPUT/vocab.txt"), "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
 "intermediate_size": 512, "max_position_embeddings": 64, "initializer_range": 0.04, "hidden_dropout_prob": 0.0,
 "attention_probs_dropout_prob": 0.0}
JSON
  records "$OUTPUT/text/train.txt" "$OUTPUT/bert" 9 --dupe_factor=5
  records "$OUTPUT/text/train.txt" "$OUTPUT/modern" 9 --sentence_task=none --dynamic_masking
  records "$OUTPUT/text/held_out.txt" "$OUTPUT/held_out" 1 --sentence_task=none --dupe_factor=1
  touch "$OUTPUT/prepared"
}

run() { # RECIPE SEED FLAGS...
  folder=$OUTPUT/$1-$2
  python -m run_scripts.run_pretraining --input_file="$OUTPUT/$1/*.tfrecord" --eval_input_file="$OUTPUT/held_out/*.tfrecord" \
    --bert_config_file="$OUTPUT/bert_config.json" --vocab_file="$OUTPUT/vocab.txt" --output_dir="$folder/pretraining" \
    --do_train --do_eval --train_batch_size=32 --eval_batch_size=32 --max_eval_steps=10000 --learning_rate=2e-3 \
    --adam_beta_2=0.98 --num_train_steps="$STEPS" --num_warmup_steps=$((STEPS / 10)) --random_seed="$2" "${@:3}"
  python -m run_scripts.run_classifier --train_file="$OUTPUT/text/train.tsv" --dev_file="$OUTPUT/text/test.tsv" \
    --output_dir="$folder/classifier" --init_checkpoint="$folder/pretraining/model" --do_train --do_eval \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=5e-4 --num_train_epochs=10 --random_seed="$2"
}

result() { sed -n "s/^$3 = //p" "$OUTPUT/$1/$2/eval_results.txt"; }

[ -e "$OUTPUT/prepared" ] || prepare >"$OUTPUT/prepare.log" 2>&1
echo "| recipe | seed | held-out masked-LM loss | accuracy of the classifier |"
echo "|---|---|---|---|"
for seed in "${@:-1 2 3}"; do
  for seed in $seed; do
    for recipe in bert modern; do
      flags=()
      [ $recipe = bert ] || flags=(--masked_lm_prob=0.3 --learning_rate_schedule=trapezoid)
      name=$recipe-$seed
      [ -e "$OUTPUT/$name/classifier/eval_results.txt" ] || run $recipe "$seed" "${flags[@]}" >"$OUTPUT/$name.log" 2>&1
      echo "| $recipe | $seed | $(result $name pretraining masked_lm_loss) | $(result $name classifier eval_accuracy) |"
    done
  done
done
