#!/usr/bin/env bash
# The real vLLM on one core, calibrated from outside within 15 minutes and validated at rates, lengths and mixes that the
# calibration did not measure, cold and warm. More than an hour; needs a quiet machine of two cores. See docs/validation.md.
#   calibrate_vllm.sh DIR SCALEPROOF OUT          DIR: of setup_vllm.sh. OUT: a new directory
# BUDGET (15 minutes), REPEATS (4), POINTS (cache:rates of each validation) and PORT (8100) may be set in the environment; PROFILE
# is that of an earlier calibration.
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
profile=${PROFILE:-$out/small.yaml}
[ -n "${PROFILE:-}" ] ||
  $client calibrate --target "$url" --budget "$budget" --scenario "$scenario" --out "$profile" --report "$out/calibration" |
  tee "$out/calibration.log"
# Where identical runs differ by more than a goal, that is the goal. 12 requests/s are more than the engine can serve.
for rps in 3 12; do
  for i in 1 2 3 4 5; do
    $client live "$scenario" --target "$url" --rps $rps --cache cold --out "$out/identical-$rps-$i" >>"$out/identical.log" 2>&1 || true
  done
done
tolerance=$("$here/noise.py" "$out"/identical-3-* --full "$out"/identical-12-* 2>"$out/noise.txt")
cat "$out/noise.txt"
good=0
# The last rate is more than the engine can serve.
for point in ${POINTS:-cold:1.5,3,12 warm:1.5,3,20}; do
  cache=${point%:*}
  $client validate "$scenario" --target "$url" --profile "$profile" --cache "$cache" --rps "${point#*:}" \
    --repeats "$repeats" --tolerance "$tolerance" --out "$out/$cache" | tee "$out/$cache.log" || good=1
done
exit $good
