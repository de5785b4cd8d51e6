#!/usr/bin/env bash
# How much does pre-training help each family? Trains the quickstart's classifier with and without it, at the same size
# and number of steps.
#
#   bash benchmarks/families.sh OUTPUT_FOLDER [FAMILY...]
#
# Two layers of width 128, 2,500 updates, then 400 labelled paragraphs. All learn masked words: an ELECTRA has no
# discriminator here, and a DistilBERT no teacher. This takes about four minutes per family on two cores.
set -euo pipefail

OUTPUT=$1
shift
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PYTHONPATH="$project${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$OUTPUT"
[ -d "$OUTPUT/text" ] || python -m run_scripts.documentation_corpus --output_dir="$OUTPUT/text" --num_train=400

one_family() {
  family=$1 folder=$OUTPUT/$1 kind=wordpiece vocabulary=$OUTPUT/$1/vocab.txt task=none
  mkdir "$folder"
  case $family in
    bert) task=next_sentence ;;
    roberta) kind=byte_pair vocabulary=$folder/vocabulary ;;
    modernbert) kind=modern_byte_pair vocabulary=$folder/vocabulary ;;
    albert) kind=sentence_piece vocabulary=$folder/vocabulary task=sentence_order ;;
  esac
  python -m data_prep.build_vocabulary --kind=$kind --input_file="$OUTPUT/text/corpus.txt" --vocab_size=4000 \
    --output_file="$vocabulary"
  python -m data_prep.create_pretraining_data --input_file="$OUTPUT/text/corpus.txt" --split_sentences \
    --vocab_file="$vocabulary" --output_dir="$folder/records" --num_shards=10 --num_processes=2 --max_seq_length=64 \
    --masked_lm_prob=0.3 --max_predictions_per_seq=20 --dupe_factor=5 --sentence_task=$task
  python - "$family" "$vocabulary" >"$folder/bert_config.json" <<'PYTHON'
import json, sys
from keras_bert import load_vocabulary, registry
from keras_bert.config import BertConfig

family, vocabulary = sys.argv[1:]
defaults = registry.family(family).defaults
shape = {"vocab_size": len(load_vocabulary(vocabulary)), "hidden_size": 128, "num_hidden_layers": 2}
shape |= {"num_attention_heads": 2, "intermediate_size": 512, "initializer_range": 0.04}
shape |= {"max_position_embeddings": 64 + defaults.get("position_offset", 0)}
shape |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "do_lower_case": "do_lower_case" not in defaults}
print(json.dumps(BertConfig.from_dict({**defaults, **shape, "model_type": family}).to_dict()))
PYTHON
  python -m run_scripts.run_pretraining --input_file="$folder/records/*-0000[0-8]-of-*.tfrecord" \
    --eval_input_file="$folder/records/*-00009-of-*.tfrecord" --bert_config_file="$folder/bert_config.json" \
    --vocab_file="$vocabulary" --output_dir="$folder/pretraining" --do_train --do_eval --train_batch_size=32 \
    --eval_batch_size=32 --learning_rate=2e-3 --adam_beta_2=0.98 --num_train_steps=2500 --num_warmup_steps=250
  for start in pretrained scratch; do
    from=(--init_checkpoint="$folder/pretraining/model")
    [ $start = pretrained ] || from=(--bert_config_file="$folder/bert_config.json" --vocab_file="$vocabulary")
    python -m run_scripts.run_classifier --train_file="$OUTPUT/text/train.tsv" --dev_file="$OUTPUT/text/test.tsv" \
      --output_dir="$folder/$start" --do_train --do_eval --max_seq_length=64 --train_batch_size=32 \
      --learning_rate=5e-4 --num_train_epochs=10 "${from[@]}"
  done
}

accuracy() { sed -n 's/^eval_accuracy = //p' "$OUTPUT/$1/$2/eval_results.txt"; }

for family in "${@:-bert}"; do
  [ -d "$OUTPUT/$family/scratch" ] || one_family "$family" >"$OUTPUT/$family.log" 2>&1
  echo "| $family | $(accuracy "$family" pretrained) | $(accuracy "$family" scratch) |"
done
