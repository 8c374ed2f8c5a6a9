#!/usr/bin/env bash
# The real vLLM on one core, calibrated from outside within 15 minutes and validated at rates, lengths and mixes that the
# calibration did not measure, cold and warm. More than an hour; needs a quiet machine of two cores. See docs/validation.md.
#   calibrate_vllm.sh DIR SCALEPROOF OUT          DIR: of setup_vllm.sh. OUT: a new directory
# BUDGET (15 minutes), REPEATS (4) and PORT (8100) may be set in the environment.
set -euo pipefail
root=${1:?usage: calibrate_vllm.sh DIR SCALEPROOF OUT}
scaleproof=$2 out=$3
here=$(cd "$(dirname "$0")" && pwd)
scenario=$here/../../scenarios/live-small
port=${PORT:-8100} budget=${BUDGET:-15} repeats=${REPEATS:-4}
url=http://127.0.0.1:$port
model=small
. "$here/with_engine.sh"
client="taskset -c 1 $scaleproof"
# The first requests after a start are slow: they are not the sweep's.
$client live "$scenario" --target "$url" --rps 8 --out "$out/warm-up" >"$out/warm-up.log" 2>&1 || true
$client calibrate --target "$url" --budget "$budget" --scenario "$scenario" --out "$out/small.yaml" --report "$out/calibration" |
  tee "$out/calibration.log"
# Where identical runs differ by more than a goal, that is the goal.
packs=()
for i in 1 2 3 4 5; do
  $client live "$scenario" --target "$url" --rps 3 --cache cold --out "$out/identical-$i" >>"$out/identical.log" 2>&1 || true
  packs+=("$out/identical-$i")
done
tolerance=$("$here/noise.py" "${packs[@]}" 2>"$out/noise.txt")
cat "$out/noise.txt"
good=0
# The last rate is more than the engine can serve.
for point in cold:1.5,3,12 warm:1.5,3,20; do
  cache=${point%:*}
  $client validate "$scenario" --target "$url" --profile "$out/small.yaml" --cache "$cache" --rps "${point#*:}" \
    --repeats "$repeats" --tolerance "$tolerance" --out "$out/$cache" | tee "$out/$cache.log" || good=1
done
exit $good
