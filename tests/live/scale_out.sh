#!/usr/bin/env bash
# Eight emulated replicas behind a real router: is the fleet's predicted capacity what is measured, and is each of three wrong
# claims refuted with its cause? Exit 0 if all four verdicts are as they must be. About 20 minutes; see docs/validation.md.
#   scale_out.sh SCALEPROOF OUT [DIR]          OUT: a new directory. DIR: of router.sh, for vllm-router instead of nginx
# SCENARIO, REPEATS (10, of the true claim), CLAIMS ("true pinned too-fast half-the-blocks") and PORT (8100) may be set in the
# environment; and CLIENT and FLEET, commands that the
# client and the fleet are started with: CLIENT='taskset -c 1' FLEET='taskset -c 0' gives the client a core of its own, which it
# needs where something else runs beside it. A client that is late proves nothing.
set -euo pipefail
scaleproof=$(realpath "${1:?usage: scale_out.sh SCALEPROOF OUT [DIR]}")
out=${2:?usage: scale_out.sh SCALEPROOF OUT [DIR]}
router=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
scenario=${SCENARIO:-$here/../../scenarios/scale-out}
repeats=${REPEATS:-10}
port=${PORT:-8100}
read -ra client <<<"${CLIENT:-}"
read -ra around <<<"${FLEET:-}"
admin=$((port + 99)) front=$((port + 50))
mkdir -p "$out"
addresses=() replicas=()
for i in 0 1 2 3 4 5 6 7; do
  addresses+=("127.0.0.1:$((port + i))")
  replicas+=(--replica "http://127.0.0.1:$((port + i))")
done
fleet='' balancer=''
stop() {
  # nginx.sh ends its nginx; the emulator says what it did.
  if [ -n "$balancer" ]; then kill "$balancer" 2>/dev/null && wait "$balancer" || true; fi
  if [ -n "$fleet" ]; then kill -INT "$fleet" 2>/dev/null && wait "$fleet" || true; fi
  fleet='' balancer=''
}
trap stop EXIT
. "$here/until_up.sh"

# begin WEIGHT [arguments of emulate]: eight replicas and the router, which gives the first one so many shares
begin() {
  local weight=$1
  shift
  "${around[@]}" "$scaleproof" emulate "$scenario" --replicas 8 --noise 0.01 --port "$port" --admin-port "$admin" "$@" >>"$out/emulate.log" 2>&1 &
  fleet=$!
  until_up "http://${addresses[7]}/v1/models"
  if [ -n "$router" ] && [ "$weight" = 1 ]; then
    "${around[@]}" "$here/router.sh" "$router" "$front" power_of_two "${addresses[@]/#/http://}" >>"$out/router.log" 2>&1 &
  else
    "${around[@]}" "$here/nginx.sh" "$front" "${addresses[0]} weight=$weight" "${addresses[@]:1}" >>"$out/router.log" 2>&1 &
  fi
  balancer=$!
  until_up "http://127.0.0.1:$front/v1/models"
}

good=0
wanted() { [[ " ${CLAIMS:-true pinned too-fast half-the-blocks} " == *" $1 "* ]]; }
# claim NAME OUTCOME CAUSE [arguments of validate]
claim() {
  local name=$1 outcome=$2 cause=$3
  shift 3
  "${client[@]}" "$scaleproof" validate "$scenario" --target "http://127.0.0.1:$front" "${replicas[@]}" --out "$out/$name" "$@" \
    >"$out/$name.log" 2>&1 || true
  if grep -q "^$outcome" "$out/$name.log" && grep -q "$cause" "$out/$name.log"; then
    echo "$name: as expected, $outcome" | tee -a "$out/summary.txt"
  else
    echo "$name: NOT as expected, which is $outcome ($cause)" | tee -a "$out/summary.txt"
    good=1
  fi
  sed -n '/^\(confirmed\|refuted\|inconclusive\)/,/^drift/p' "$out/$name.log" >>"$out/summary.txt"
  tail -n 3 "$out/$name.log" | grep '^error' >>"$out/summary.txt" || true
  stop
}

{ date -u '+%Y-%m-%d %H:%M UTC'; echo "$(nproc) cores, load average $(cut -d' ' -f1-3 /proc/loadavg) before the first run"; } >"$out/summary.txt"
if wanted true; then
  begin 1
  # With 600 requests a run the tails of TTFT rest on a few of them: at the usual tolerances --plan asks for 40 repeats.
  claim true confirmed 'inside their tolerances' --repeats "$repeats" --tolerance ttft_p90=0.3,ttft_p95=0.4,attainment=0.05
fi
if wanted pinned; then
  begin 7
  claim pinned refuted 'cause: router' --rps 20 --repeats 3
fi
if wanted too-fast; then
  begin 1
  # Steps that take 1.15 times the profile's: a profile that is 15 % too fast. At half the rate of the other claims: this one shows
  # at any, and two cores then have room for a client that is on time.
  curl -sf -d '{"fault": "slow", "factor": 1.15}' "http://127.0.0.1:$admin/replicas/all/fault" >/dev/null
  claim too-fast refuted 'cause: step time' --rps 10 --repeats 3
fi
if wanted half-the-blocks; then
  begin 1 --num-blocks 1500
  claim half-the-blocks refuted 'cause: engine capacity' --rps 40 --repeats 3
fi
echo "load average $(cut -d' ' -f1-3 /proc/loadavg) at the end" >>"$out/summary.txt"
exit $good
