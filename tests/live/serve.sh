#!/usr/bin/env bash
# One replica of the real vLLM on one core; see docs/live-engines.md. Ready when GET /health answers 200, after some 40 s.
#   serve.sh DIR MODEL PORT CORE [arguments of `vllm serve`]
# The worker has no spinning thread: one core is enough.
set -euo pipefail
root=${1:?usage: serve.sh DIR MODEL PORT CORE [arguments of vllm serve]}
model=$2 port=$3 core=$4
shift 4
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
# For POST /reset_prefix_cache.
export VLLM_SERVER_DEV_MODE=1
export VLLM_ENABLE_V1_MULTIPROCESSING=0 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1
export VLLM_CPU_KVCACHE_SPACE=${KV_GIB:-1}
# A core that slept between two requests computes slower for a while; one that is calibrated does not sleep. So it is kept awake, by
# a loop of the lowest priority and in a session of its own, lest it share the engine's time (autogroup). It ends with the engine. AWAKE=no
# goes without (idle.py shows the difference).
[ "${AWAKE:-yes}" = no ] || setsid chrt -i 0 taskset -c "$core" bash -c '
  echo 19 >/proc/self/autogroup
  while kill -0 "$1"; do for ((i = 0; i < 1000000; i++)); do :; done; done' awake $$ 2>/dev/null &
# The settings of scenarios/live-tiny and live-small; what follows on the command line overrides them.
exec taskset -c "$core" "$root/venv/bin/vllm" serve "$root/models/$model" --host 127.0.0.1 --port "$port" \
  --served-model-name m --load-format dummy --dtype float32 --distributed-executor-backend uni --enforce-eager \
  --max-model-len 4096 --block-size 32 --num-gpu-blocks-override 2400 --max-num-batched-tokens 2048 --max-num-seqs 64 \
  --enable-prompt-tokens-details "$@"
