# Sourced: starts the engine on core 0, stops it when the script ends, and waits until it serves. Takes $here, $root (of
# setup_vllm.sh), $model, $port, $url and $out (a new directory) from the script.
# shellcheck shell=bash disable=SC2154
mkdir -p "$out"
"$here/serve.sh" "$root" "$model" "$port" 0 >"$out/engine.log" 2>&1 &
engine=$!
trap 'kill $engine; wait $engine || true' EXIT
. "$here/until_up.sh"
until_up "$url/health" $engine
