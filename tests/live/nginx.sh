#!/usr/bin/env bash
# nginx (Debian's package) in front of replicas, in the foreground, to the one with the fewest connections.
#   nginx.sh PORT HOST:PORT...               "HOST:PORT weight=7" gives one seven times the shares of the others
set -euo pipefail
port=${1:?usage: nginx.sh PORT HOST:PORT...}
shift
run=$(mktemp -d)
trap 'kill $nginx 2>/dev/null && wait $nginx; rm -rf "$run"' EXIT
trap 'exit 0' INT TERM
nginx=
servers=$(printf 'server %s; ' "$@")
sed -e "s|@RUN@|$run|g" -e "s|@PORT@|$port|g" -e "s|@SERVERS@|$servers|" "$(dirname "$0")/nginx.conf.in" >"$run/nginx.conf"
nginx -p "$run" -c "$run/nginx.conf" -g 'daemon off;' &
nginx=$!
wait $nginx
