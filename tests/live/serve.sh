#!/usr/bin/env bash
# One replica of the real vLLM on one core; see docs/live-engines.md. Ready when GET /health answers 200, after some 40 s.
#   serve.sh DIR MODEL PORT CORE [arguments of `vllm serve`]
# Server and engine run in one process and the worker without a spinning thread: one core is enough.
set -euo pipefail
root=${1:?usage: serve.sh DIR MODEL PORT CORE [arguments of vllm serve]}
model=$2 port=$3 core=$4
shift 4
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
# For POST /reset_prefix_cache.
export VLLM_SERVER_DEV_MODE=1
export VLLM_ENABLE_V1_MULTIPROCESSING=0 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1
export VLLM_CPU_KVCACHE_SPACE=${KV_GIB:-1}
# The settings of scenarios/live-tiny; what follows on the command line overrides them.
exec taskset -c "$core" "$root/venv/bin/vllm" serve "$root/models/$model" --host 127.0.0.1 --port "$port" \
  --served-model-name m --load-format dummy --dtype float32 --distributed-executor-backend uni --enforce-eager \
  --max-model-len 4096 --block-size 32 --num-gpu-blocks-override 2400 --max-num-batched-tokens 2048 --max-num-seqs 64 \
  --enable-prompt-tokens-details "$@"
