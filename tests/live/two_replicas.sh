#!/usr/bin/env bash
# Two real vLLM replicas behind vllm-router, judged by what a calibration of one replica predicts of them. About a quarter of an
# hour; needs two quiet cores, which router and client share with the engines. See docs/validation.md.
#   two_replicas.sh DIR SCALEPROOF OUT PROFILE     DIR: of setup_vllm.sh. OUT: a new directory. PROFILE: of calibrate_vllm.sh
# RATES (2,4), REPEATS (3) and PORT (8100) may be set in the environment.
set -euo pipefail
root=$(realpath "${1:?usage: two_replicas.sh DIR SCALEPROOF OUT PROFILE}")
scaleproof=$(realpath "$2") profile=$(realpath "$4")
mkdir -p "$3"
out=$(realpath "$3")
here=$(cd "$(dirname "$0")" && pwd)
port=${PORT:-8100}
. "$here/with_two_engines.sh"
target=(--target "http://127.0.0.1:$front" --replica "${replicas[0]}" --replica "${replicas[1]}")
# The first requests after a start are slow: they are not the sweep's.
"$scaleproof" live "$out/scenario" "${target[@]}" --rps 2 --out "$out/warm-up" >"$out/warm-up.log" 2>&1 || true
"$scaleproof" validate "$out/scenario" "${target[@]}" --profile "$profile" --rps "${RATES:-2,4}" --repeats "${REPEATS:-3}" \
  --tolerance tpot_p50=0.05,ttft_p50=0.1,ttft_p95=0.15,throughput=0.03,prefix_hits=0.01,preemptions=0.1 \
  --out "$out/verdict" | tee "$out/verdict.log"
