#!/usr/bin/env bash
# The worked example at its own pace: four emulated replicas at 20 requests/s, one of them killed and started again by itself,
# beside what is simulated of the same. Exit 0 if the test passes; the table "Prediction" says what lies inside. About eight
# minutes a run; a release build and a machine with nothing else to do. See docs/failures.md.
#   worked_example.sh SCALEPROOF OUT          OUT: a new directory
# RUNS ("0", repeats of the schedule, one after the other), REQUESTS (7500), KILL_S (120) and PORT (8100) may be set in the
# environment; and CLIENT and FLEET, commands that client and fleet are started with, as of scale_out.sh.
set -euo pipefail
scaleproof=$(realpath "${1:?usage: worked_example.sh SCALEPROOF OUT}")
out=${2:?usage: worked_example.sh SCALEPROOF OUT}
here=$(cd "$(dirname "$0")" && pwd)
root=$(realpath "$here/../..")
port=${PORT:-8100} requests=${REQUESTS:-7500}
admin=$((port + 99))
read -ra client <<<"${CLIENT:-}"
read -ra around <<<"${FLEET:-}"
mkdir -p "$out"
cp -r "$root/scenarios/tp2-dp4" "$out/scenario"
interactive=$((requests * 7 / 10)) long=$((requests * 2 / 10))
sed -i "s|\.\./\.\./models|$root/models|" "$out/scenario/scenario.yaml"
sed -i -e "s/initial_scheduled_requests: .*/initial_scheduled_requests: $requests/" \
  -e "s/class_schedule_counts: .*/class_schedule_counts: {interactive: $interactive, long_context: $long, generation_heavy: $((requests - interactive - long))}/" \
  -e "s/min_successful_samples_per_class: .*/min_successful_samples_per_class: 500/" "$out/scenario/workload-manifest.yaml"
fleet=''
trap '[ -z "$fleet" ] || { kill -INT $fleet 2>/dev/null && wait $fleet || true; }' EXIT
. "$here/until_up.sh"
code=0
for run in ${RUNS:-0}; do
  "${around[@]}" "$scaleproof" emulate "$out/scenario" --port "$port" --admin-port "$admin" >"$out/emulate-$run.log" 2>&1 &
  fleet=$!
  until_up "http://127.0.0.1:$admin/replicas" $fleet
  targets=()
  for url in $(sed -n 's/^replica [0-9]*: //p' "$out/emulate-$run.log"); do targets+=(--target "$url"); done
  "${client[@]}" "$scaleproof" failure-test "$out/scenario" --live --rate 20 --replica 1 --at "${KILL_S:-120}" --run "$run" --predict \
    "${targets[@]}" --interval-s 1 --out "$out/run-$run" \
    --inject "curl -sf -d '{\"fault\": \"stop\", \"start_up_seconds\": 87.5}' http://127.0.0.1:$admin/replicas/1/fault" |
    tee "$out/run-$run.log" || code=$?
  kill -INT $fleet && wait $fleet || true
  fleet=''
done
exit $code
