#!/usr/bin/env bash
# Two real vLLM replicas behind vllm-router, judged by what a calibration of one replica predicts of them. Each replica has a
# core; router and client, which need a few hundredths of one, have real-time priority on both. Half an hour; needs
# two quiet cores and root. See docs/validation.md.
#   two_replicas.sh DIR SCALEPROOF OUT          DIR: of setup_vllm.sh. OUT: a new directory
# BUDGET (15 minutes), RATES (3,6), REPEATS (3), TOLERANCE and PORT (8100) may be set in the environment; PROFILE is that of an
# earlier calibration, of calibrate_vllm.sh as well.
set -euo pipefail
root=$(realpath "${1:?usage: two_replicas.sh DIR SCALEPROOF OUT}")
scaleproof=$(realpath "$2")
mkdir -p "$3"
out=$(realpath "$3")
here=$(cd "$(dirname "$0")" && pwd)
port=${PORT:-8100} model=small
profile=${PROFILE:-$out/one.yaml}
aside="chrt --rr 1"
client="$aside $scaleproof"
[ -n "${PROFILE:-}" ] || (
  url=http://127.0.0.1:$port
  . "$here/with_engine.sh"
  scenario=$here/../../scenarios/live-$model
  # The first requests after a start are slow: they are not the sweep's.
  $client live "$scenario" --target "$url" --rps 4 --out "$out/one-warm-up" >"$out/one-warm-up.log" 2>&1 || true
  $client calibrate --target "$url" --budget "${BUDGET:-15}" --scenario "$scenario" --out "$profile" \
    --report "$out/calibration" | tee "$out/calibration.log"
)
. "$here/with_two_engines.sh"
target=(--target "http://127.0.0.1:$front" --replica "${replicas[0]}" --replica "${replicas[1]}")
$client live "$out/scenario" "${target[@]}" --rps 4 --out "$out/warm-up" >"$out/warm-up.log" 2>&1 || true
$client validate "$out/scenario" "${target[@]}" --profile "$profile" --rps "${RATES:-3,6}" --repeats "${REPEATS:-3}" \
  ${TOLERANCE:+--tolerance "$TOLERANCE"} --out "$out/verdict" | tee "$out/verdict.log"
