#!/usr/bin/env bash
# Does pre-training help? The quickstart with three seeds, each beside the same model from scratch (about 20 minutes).
#
#   bash benchmarks/three_seeds.sh OUTPUT_FOLDER
set -euo pipefail

OUTPUT=$1
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "$OUTPUT"
for seed in 1 2 3; do
  SEED=$seed bash "$project/run_scripts/quickstart.sh" "$OUTPUT/$seed" >"$OUTPUT/$seed.log" 2>&1
done
python - "$OUTPUT" <<'PYTHON'
import pathlib, statistics, sys

def accuracy(seed, stage):
    lines = (pathlib.Path(sys.argv[1]) / str(seed) / stage / "eval_results.txt").read_text().splitlines()
    return 100 * float(dict(line.split(" = ") for line in lines)["eval_accuracy"])

print("| seed | pre-trained | from scratch | difference |\n|---|---|---|---|")
rows = [(accuracy(seed, "classifier"), accuracy(seed, "classifier_from_scratch")) for seed in (1, 2, 3)]
for seed, (trained, scratch) in enumerate(rows, start=1):
    print(f"| {seed} | {trained:.1f} % | {scratch:.1f} % | {trained - scratch:+.1f} |")
trained, scratch = zip(*rows)
print(f"| mean | {statistics.mean(trained):.1f} % | {statistics.mean(scratch):.1f} % "
      f"| {statistics.mean(trained) - statistics.mean(scratch):+.1f} |")
print(f"| highest - lowest | {max(trained) - min(trained):.1f} | {max(scratch) - min(scratch):.1f} | |")
PYTHON
