#!/usr/bin/env bash
# A whole study against emulated replicas, as one makes it of real ones: closed and open loop, cold and warm, three repeats, the
# plan, the kill of a replica, and the verdict of verify-pack. Exit 0 if that accepts it. About ten minutes; a release build and
# a machine with nothing else to do. See docs/verification.md.
#   rehearsal.sh SCALEPROOF OUT          OUT: a new directory
# SCENARIO, RPS, CONCURRENCY, FAILURE_RATE and PORT (8100) may be set in the environment.
set -euo pipefail
scaleproof=$(realpath "${1:?usage: rehearsal.sh SCALEPROOF OUT}")
out=${2:?usage: rehearsal.sh SCALEPROOF OUT}
here=$(cd "$(dirname "$0")" && pwd)
scenario=${SCENARIO:-$here/../../scenarios/rehearsal}
port=${PORT:-8100}
admin=$((port + 99))
mkdir -p "$out"
"$scaleproof" emulate "$scenario" --port "$port" --admin-port "$admin" >"$out/emulate.log" 2>&1 &
fleet=$!
trap 'kill -INT $fleet 2>/dev/null && wait $fleet || true' EXIT
. "$here/until_up.sh"
until_up "http://127.0.0.1:$admin/replicas" $fleet
targets=()
for url in $(sed -n 's/^replica [0-9]*: //p' "$out/emulate.log"); do targets+=(--target "$url"); done
# Slow enough that the failure test lasts a minute: the steady state must hold for 30 s. The replica is started again by itself.
"$scaleproof" reproduce "$scenario" --live "${targets[@]}" --out "$out/study" \
  --rps "${RPS:-100,200,300}" --concurrency "${CONCURRENCY:-8,32,64}" --failure-rate "${FAILURE_RATE:-60}" --interval-s 1 \
  --inject "curl -sf -d '{\"fault\": \"stop\", \"start_up_seconds\": 5}' http://127.0.0.1:$admin/replicas/0/fault" |
  tee "$out/reproduce.log"
