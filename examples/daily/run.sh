#!/usr/bin/env bash
# Two days of a click model: train, export, start from yesterday, hand over what has changed, serve and score.
#   examples/daily/run.sh [DIRECTORY]
# docs/clicks.md explains such a loop.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=${1:-daily}
python=${PYTHON:-python3}
export TF_CPP_MIN_LOG_LEVEL=3 # of TensorFlow's C++ part
mkdir -p "$work"
work=$(cd "$work" && pwd)
cd "$here" # where clicks.py is
train=("$python" -m ps_train --model=clicks:Clicks --batch_size=256 --data_dir="$work/data")

"$python" make_data.py "$work/data"

# Day 1
"${train[@]}" --num_ps=1 --num_workers=1 --model_arg=day=1 --epochs=2 --model_dir="$work/runs/day1" --export_dir="$work/export"

# Day 2: a new field, more users, more ads.  What is there of yesterday is taken.
"${train[@]}" --num_ps=2 --num_workers=2 --model_arg=day=2 --epochs=1 --model_dir="$work/runs/day2" --export_dir="$work/export" \
    --warm_start="$work/runs/day1" --warm_start_report

# Later on day 2: training goes on with new rows, and serving gets what has changed.
"${train[@]}" --num_ps=1 --num_workers=1 --model_arg=day=2 --model_arg=files=day2/more.parquet --epochs=1 --export_dir="$work/export" \
    --model_dir="$work/runs/later" --warm_start="$work/runs/day2" --warm_start_step=keep
"$python" -m ps_train delta "$work/export/2" "$work/export/3" --to="$work/deltas/0003"
"$python" -m ps_train apply "$work/export/2" "$work/deltas/0003" --to="$work/copy/3" &
apply=$!

# Meanwhile: a reader that has export 2
mkdir -p "$work/served"
cp -r "$work/export/2" "$work/served/2"
"$python" serve.py "$work/served" "$work/deltas/0003"
wait "$apply"

# Scores for a file, and both days' models on the same rows
"$python" -m ps_train predict --export_dir="$work/export/3" --data="$work/data/day2/test.parquet" --to="$work/scored.parquet" &
predict=$!
"$python" -m ps_train compare "$work/export/1" "$work/export/3" --data="$work/data/day2/test.parquet" --label=click --by=device
wait "$predict"
