#!/usr/bin/env bash
# The live acceptance runs on the real engine: open loop at three rates, closed loop at 1, 4 and 16, cold and warm; every pack is
# checked. Engine on core 0, generator on core 1. About 15 minutes; needs a quiet machine. See docs/live-engines.md.
#   run_all.sh DIR SCALEPROOF OUT          DIR: of setup_vllm.sh. OUT: a new directory for packs and logs
set -euo pipefail
root=${1:?usage: run_all.sh DIR SCALEPROOF OUT}
scaleproof=$2 out=$3
here=$(cd "$(dirname "$0")" && pwd)
port=${PORT:-8100}
url=http://127.0.0.1:$port
model=tiny
. "$here/with_engine.sh"
good=0
for cache in cold warm; do
  for load in '--rps 1,2,4' '--concurrency 1,4,16'; do
    study=$out/$cache-${load:2:3}
    # Exit 3 is a gate that does not pass: check_pack.py says whether the runs themselves are what they must be.
    # shellcheck disable=SC2086
    taskset -c 1 "$scaleproof" live "$here/../../scenarios/live-tiny" --target "$url" $load --cache $cache --out "$study" \
      >"$study.log" 2>&1 || [ $? = 3 ] || { echo "live failed: see $study.log"; good=1; continue; }
    "$here/check_pack.py" $cache "$study"/points/* || good=1
  done
done
exit $good
