#!/usr/bin/env bash
# kill -9 of one of two real vLLM replicas behind vllm-router; a supervisor starts it again, as a service manager does. A live
# failure test, whose failure-test.md must be complete; exit 0 if it also passes. About five minutes; see docs/failures.md.
#   kill_vllm.sh DIR SCALEPROOF OUT          DIR: of setup_vllm.sh. OUT: a new directory
# RATE (3), REQUESTS (540), KILL_S (40) and PORT (8100) may be set in the environment.
set -euo pipefail
root=$(realpath "${1:?usage: kill_vllm.sh DIR SCALEPROOF OUT}")
scaleproof=$(realpath "$2")
out=$3
here=$(cd "$(dirname "$0")" && pwd)
port=${PORT:-8100} rate=${RATE:-3} requests=${REQUESTS:-540}
front=$((port + 50))
mkdir -p "$out/scenario"
out=$(realpath "$out")

# The scenario of this engine for two replicas, long enough for the recovery.
short=$((requests * 7 / 10))
sed -e 's/dp: 1, replicas: 1, gpus: 1/dp: 2, replicas: 2, gpus: 2/' \
  -e "s/initial_scheduled_requests: .*/initial_scheduled_requests: $requests/" \
  -e "s/class_schedule_counts: .*/class_schedule_counts: {short: $short, long: $((requests - short))}/" \
  "$here/../../scenarios/live-tiny/workload-manifest.yaml" >"$out/scenario/workload-manifest.yaml"
sed "s|../../models|$here/../../models|" "$here/../../scenarios/live-tiny/scenario.yaml" >"$out/scenario/scenario.yaml"

# supervise NUMBER: a replica on the core of its number, started again whenever it ends. Its id is left for the fault.
supervise() {
  trap 'kill $engine; exit 0' TERM
  while :; do
    "$here/serve.sh" "$root" tiny $((port + $1)) "$1" >>"$out/engine-$1.log" 2>&1 &
    engine=$!
    echo $engine >"$out/engine-$1.pid"
    wait $engine || true
    echo "$(date -u +%T) replica $1 ended" >>"$out/supervisor.log"
  done
}
supervise 0 &
first=$!
supervise 1 &
second=$!
router=
stop() {
  kill $first $second $router 2>/dev/null || true
  wait || true
}
trap stop EXIT

# until_up URL PATH
until_up() {
  for _ in $(seq 180); do
    curl -sf "$1$2" >/dev/null && return
    sleep 1
  done
  echo "$1 does not answer: see the logs in $out"
  exit 1
}
replicas=("http://127.0.0.1:$port" "http://127.0.0.1:$((port + 1))")
for url in "${replicas[@]}"; do until_up "$url" /health; done
"$here/router.sh" "$root" "$front" round_robin "${replicas[@]}" >"$out/router.log" 2>&1 &
router=$!
until_up "http://127.0.0.1:$front" /v1/models

# While it has requests: what it has is lost with it.
busy="curl -s ${replicas[1]}/metrics | grep -q 'num_requests_running{.*} [1-9]'"
kill="until $busy; do sleep 0.05; done; kill -9 \$(cat '$out/engine-1.pid')"
code=0
"$scaleproof" failure-test "$out/scenario" --live --target "http://127.0.0.1:$front" \
  --replica-url "${replicas[0]}" --replica-url "${replicas[1]}" --rate "$rate" --fault kill --replica 1 --at "${KILL_S:-40}" \
  --interval-s 2 --inject "$kill" --out "$out/pack" | tee "$out/failure-test.log" || code=$?
for part in '## Verdict' '## What happened' '| detected' 'it takes work again' 'ReplicaDown'; do
  grep -q "$part" "$out/pack/failure-test.md" || { echo "failure-test.md has no \"$part\""; code=1; }
done
exit $code
