#!/usr/bin/env bash
# kill -9 of one of two real vLLM replicas behind vllm-router; a supervisor starts it again, as a service manager does. A live
# failure test, whose failure-test.md must be complete; exit 0 if it also passes. About five minutes; see docs/failures.md.
#   kill_vllm.sh DIR SCALEPROOF OUT          DIR: of setup_vllm.sh. OUT: a new directory
# RATE (3), REQUESTS (540), KILL_S (40) and PORT (8100) may be set in the environment.
set -euo pipefail
root=$(realpath "${1:?usage: kill_vllm.sh DIR SCALEPROOF OUT}")
scaleproof=$(realpath "$2")
mkdir -p "$3"
out=$(realpath "$3")
here=$(cd "$(dirname "$0")" && pwd)
port=${PORT:-8100} rate=${RATE:-3} requests=${REQUESTS:-540}
model=tiny
. "$here/with_two_engines.sh"
# Long enough for the recovery.
short=$((requests * 7 / 10))
sed -i -e "s/initial_scheduled_requests: .*/initial_scheduled_requests: $requests/" \
  -e "s/class_schedule_counts: .*/class_schedule_counts: {short: $short, long: $((requests - short))}/" \
  "$out/scenario/workload-manifest.yaml"

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
