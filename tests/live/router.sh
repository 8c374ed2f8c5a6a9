#!/usr/bin/env bash
# The real vllm-router 0.1.17 in front of replicas, installed into DIR/router first if it is not there (130 MB).
#   router.sh DIR PORT POLICY URL...          POLICY: round_robin, power_of_two, cache_aware, ...
set -euo pipefail
root=${1:?usage: router.sh DIR PORT POLICY URL...}
port=$2 policy=$3
shift 3
if [ ! -x "$root/router/bin/vllm-router" ]; then
  python3.11 -m venv "$root/router"
  "$root/router/bin/pip" install -q vllm-router==0.1.17
fi
exec "$root/router/bin/vllm-router" --host 127.0.0.1 --port "$port" --worker-urls "$@" --policy "$policy" \
  --prometheus-port $((port + 1))
