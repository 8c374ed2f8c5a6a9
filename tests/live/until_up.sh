# Sourced: `until_up URL [PROCESS]` waits until the address answers, three minutes at most and not beyond the end of the process;
# then the script ends, and names $out, where the logs are.
# shellcheck shell=bash disable=SC2154
until_up() {
  for _ in $(seq 900); do
    curl -sf "$1" >/dev/null && return
    [ $# -lt 2 ] || kill -0 "$2" 2>/dev/null || break
    sleep 0.2
  done
  echo "$1 does not answer: see the logs in $out"
  exit 1
}
