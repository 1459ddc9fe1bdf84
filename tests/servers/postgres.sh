#!/usr/bin/env bash
# A real PostgreSQL server for tests, with logical decoding on (pgoutput is built in).
#
#   postgres.sh install                      apt package (root only; PostgreSQL 15 on Debian 12)
#   postgres.sh start DATADIR PORT [-c a=b]  create if new, start, return when it answers
#   postgres.sh stop  DATADIR                clean shutdown, return when gone
#   postgres.sh client DATADIR [args]        psql as the superuser `postgres`
#
# Users: postgres (superuser, no password from 127.0.0.1) and cdc/cdc (LOGIN REPLICATION).
# PostgreSQL refuses to run as root: as root everything runs as the user `postgres`, and DATADIR is handed to it.
set -euo pipefail
BIN=${PG_BIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)}
as() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }

install() {
    [ -n "$BIN" ] && [ -x "$BIN/postgres" ] && return 0
    export DEBIAN_FRONTEND=noninteractive
    mkdir -p /etc/postgresql-common; echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    apt-get -qq update; apt-get -qq -y --no-install-recommends install postgresql >/dev/null
    BIN=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
}

start() {
    local dir port; mkdir -p "$1"; dir=$(cd "$1" && pwd); port=$2; shift 2
    install
    [ "$(id -u)" = 0 ] && chown -R postgres "$dir"
    cd "$dir"
    as "$BIN/pg_ctl" -D "$dir/data" status >/dev/null 2>&1 && return 0
    [ -s "$dir/data/PG_VERSION" ] || as "$BIN/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 >"$dir/init.log" 2>&1
    as "$BIN/pg_ctl" -D "$dir/data" -l "$dir/postgres.log" -w -t 30 -o "-p $port -h 127.0.0.1 -k '$dir' -c wal_level=logical \
        -c max_wal_senders=20 -c max_replication_slots=20 -c fsync=off -c full_page_writes=off $*" start >/dev/null
    as "$BIN/psql" -qX -h 127.0.0.1 -p "$port" -U postgres -c "DO \$\$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname='cdc')
        THEN CREATE ROLE cdc LOGIN REPLICATION PASSWORD 'cdc'; GRANT pg_read_all_data TO cdc; END IF; END \$\$"
}

stop() { local dir; dir=$(cd "$1" 2>/dev/null && pwd) || return 0; cd "$dir"; as "$BIN/pg_ctl" -D "$dir/data" -w -m fast stop >/dev/null 2>&1 || true; }

case ${1:-} in
    install) install ;;
    start) shift; start "$@" ;;
    stop) stop "$2" ;;
    client) d=$(cd "$2" && pwd); p=$(sed -n 4p "$d/data/postmaster.pid"); shift 2; exec psql -X -h 127.0.0.1 -p "$p" -U postgres "$@" ;;
    *) sed -n '2,12p' "$0"; exit 2 ;;
esac
