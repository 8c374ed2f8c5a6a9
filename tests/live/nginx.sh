#!/usr/bin/env bash
# nginx (Debian's package) in front of replicas, in the foreground, to the one with the fewest connections.
#   nginx.sh PORT HOST:PORT...
set -euo pipefail
port=${1:?usage: nginx.sh PORT HOST:PORT...}
shift
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
servers=$(printf 'server %s; ' "$@")
sed -e "s|@RUN@|$run|g" -e "s|@PORT@|$port|g" -e "s|@SERVERS@|$servers|" "$(dirname "$0")/nginx.conf.in" >"$run/nginx.conf"
nginx -p "$run" -c "$run/nginx.conf" -g 'daemon off;'
