# Sourced: two real replicas, each started again whenever it ends, behind vllm-router; all stopped when the script ends. Takes
# $here, $root (of setup_vllm.sh), $model (tiny or small), $aside (a command before the router, may be unset),
# $port and $out (a new directory) from the script; leaves $front (the router's port), $replicas (their addresses), each engine's
# id in $out/engine-N.pid, and in $out/scenario that of scenarios/live-$model for two.
# shellcheck shell=bash disable=SC2154
. "$here/until_up.sh"
front=$((port + 50))
replicas=("http://127.0.0.1:$port" "http://127.0.0.1:$((port + 1))")
mkdir -p "$out/scenario"
sed 's/dp: 1, replicas: 1, gpus: 1/dp: 2, replicas: 2, gpus: 2/' "$here/../../scenarios/live-$model/workload-manifest.yaml" \
  >"$out/scenario/workload-manifest.yaml"
sed -e "s|../../models|$here/../../models|" -e 's/router: .*/router: {policy: round_robin}/' \
  "$here/../../scenarios/live-$model/scenario.yaml" >"$out/scenario/scenario.yaml"

# supervise NUMBER: a replica on the core of its number, as a service manager keeps it.
supervise() {
  trap 'kill $engine; exit 0' TERM
  while :; do
    "$here/serve.sh" "$root" "$model" $((port + $1)) "$1" >>"$out/engine-$1.log" 2>&1 &
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
  # shellcheck disable=SC2086
  kill $first $second $router 2>/dev/null || true
  wait || true
}
trap stop EXIT

for url in "${replicas[@]}"; do until_up "$url/health"; done
${aside:-} "$here/router.sh" "$root" "$front" round_robin "${replicas[@]}" >"$out/router.log" 2>&1 &
router=$!
until_up "http://127.0.0.1:$front/v1/models"
