#!/usr/bin/env bash
# A real PgBouncer for tests, in front of a PostgreSQL server: Debian's package, unpacked into a folder of its own, which needs no root.
#
#   pgbouncer.sh install                                  download and unpack (0.5 MB); once
#   pgbouncer.sh start DATADIR PORT SERVER_PORT [name=value]   pool the server's databases, return when it answers
#   pgbouncer.sh stop  DATADIR                            end it at once
#
# Further arguments of `start` are lines of its section [pgbouncer]. Users as in postgres.sh: postgres, and cdc/cdc.
set -euo pipefail
. "$(dirname "$0")/process.sh"
ROOT=${PENSTOCK_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock-servers}/pgbouncer
PROGRAM=$ROOT/usr/sbin/pgbouncer

install() {
    [ -x "$PROGRAM" ] && return 0
    local tmp=$ROOT.tmp.$$; rm -rf "$tmp"; mkdir -p "$tmp/debs" "$tmp/root"
    # The packages that PostgreSQL's own packages do not bring.
    if ! (cd "$tmp/debs" && apt-get -qq download pgbouncer libc-ares2 libevent-2.1-7 >/dev/null 2>&1); then
        apt-get -qq update; (cd "$tmp/debs" && apt-get -qq download pgbouncer libc-ares2 libevent-2.1-7 >/dev/null)
    fi
    local deb; for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
    rm -rf "$ROOT"; mv "$tmp/root" "$ROOT"; rm -rf "$tmp"
}

start() {
    local dir port=$2 server=$3; mkdir -p "$1"; dir=$(cd "$1" && pwd); shift 3
    install
    printf '"cdc" "cdc"\n"postgres" ""\n' >"$dir/users"
    cat >"$dir/pgbouncer.ini" <<INI
[databases]
* = host=127.0.0.1 port=$server
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = trust
auth_file = $dir/users
admin_users = postgres
$(printf '%s\n' "$@")
INI
    # It refuses to stay root.
    local user=(); if [ "$(id -u)" = 0 ]; then user=(-u nobody); chmod -R a+rX "$dir"; fi
    (cd "$dir"; LD_LIBRARY_PATH=$ROOT/usr/lib/x86_64-linux-gnu setsid "$PROGRAM" -q "${user[@]}" "$dir/pgbouncer.ini" \
        >"$dir/pgbouncer.log" 2>&1 & echo $! >"$dir/pid")
    answers pgbouncer "$dir" "$(cat "$dir/pid")" 60 psql -qXAt -h 127.0.0.1 -p "$port" -U postgres -d pgbouncer -c "SHOW VERSION"
}

case ${1:-} in
    install) install ;;
    start) shift; start "$@" ;;
    stop) stop "$2" 0 ;;
    *) sed -n '2,8p' "$0"; exit 2 ;;
esac
