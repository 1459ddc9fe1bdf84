#!/usr/bin/env bash
# A real MariaDB server for tests, of the series in MARIADB_SERIES.
#
#   10.11   the system's own package, as on Debian 12 (the default; its installation needs root)
#   11.8    from Debian 13, unpacked into a folder of its own and run with its own dynamic loader: needs no root
#
#   mariadb.sh install                     download, unpack or install (11.8: 26 MB down, 180 MB on disk, about 15 s); once
#   mariadb.sh start DATADIR PORT [--opt]  create if new, start, return when it answers
#   mariadb.sh stop  DATADIR               clean shutdown, return when gone
#   mariadb.sh client DATADIR [args]       the mariadb command line as root over the socket
#   mariadb.sh binlog [args]               mariadb-binlog
#
# Extra arguments of `start` go to mariadbd. Users as in mysql.sh: root@127.0.0.1 without password, cdc/cdc for readers.
set -euo pipefail
. "$(dirname "$0")/process.sh"
SERIES=${MARIADB_SERIES:-10.11}
case $SERIES in
    10.11) SUITE= ;;
    11.8) SUITE=trixie ;;
    *) echo "MARIADB_SERIES=$SERIES is not known: 10.11 or 11.8" >&2; exit 2 ;;
esac
HOME_DIR=${PENSTOCK_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock-servers}/mariadb-$SERIES
ROOT=$HOME_DIR/root
SHARE=$ROOT/usr/share

# The command line of a program of this series, in the array `argv`.
program() {
    if [ -z "$SUITE" ]; then argv=("${1##*/}"); return; fi
    argv=("$ROOT/usr/lib64/ld-linux-x86-64.so.2" --library-path "$ROOT/usr/lib/x86_64-linux-gnu" "$ROOT/usr/$1")
}
run() { local argv; program "$1"; shift; "${argv[@]}" "$@"; }

install() {
    if [ -n "$SUITE" ]; then unpack; return; fi
    command -v mariadbd >/dev/null && return 0
    export DEBIAN_FRONTEND=noninteractive
    # The package would start a system server of its own: keep it from doing that.
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d
    apt-get -qq update; apt-get -qq -y --no-install-recommends install mariadb-server >/dev/null; rm -f /usr/sbin/policy-rc.d
}

unpack() {
    [ -x "$ROOT/usr/sbin/mariadbd" ] && return 0
    local apt=$HOME_DIR/apt tmp=$ROOT.tmp.$$
    mkdir -p "$apt"/{etc/apt.conf.d,etc/preferences.d,lists/partial,cache/archives/partial,tmp}
    : >"$apt/status"
    # The Debian archive this machine already uses (on another distribution name one in DEBIAN_MIRROR; needs debian-archive-keyring).
    local mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | sort -u | head -1)}
    [ -n "$mirror" ] || { echo "no Debian archive in the apt sources: set DEBIAN_MIRROR to one" >&2; return 1; }
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $SUITE main" >"$apt/etc/sources.list"
    local opts=(-o Dir::Etc="$apt/etc" -o Dir::Etc::parts="$apt/etc/apt.conf.d" -o Dir::State="$apt" -o Dir::State::lists="$apt/lists"
        -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o Debug::NoLocking=1 -o APT::Sandbox::User=root
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
    apt-get "${opts[@]}" -qq update
    # The core packages bring what the programs link to; of the two larger packages only programs and plugins are used.
    apt-get "${opts[@]}" -qq -y --download-only --no-install-recommends install mariadb-server-core mariadb-client-core >/dev/null
    (cd "$apt/cache/archives" && apt-get "${opts[@]}" -qq download mariadb-server mariadb-client >/dev/null)
    rm -rf "$tmp"; mkdir -p "$tmp"
    local deb; for deb in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$deb" "$tmp"; done
    rm -rf "$ROOT"; mv "$tmp" "$ROOT"; rm -rf "$apt/cache"
}

socket_of() { local s=$1/mariadb.sock; [ ${#s} -gt 100 ] && s=/tmp/mariadb-$(printf %s "$1" | cksum | cut -d' ' -f1).sock; echo "$s"; }

create() {   # create DIR: an empty data directory
    local dir=$1 part
    rm -rf "$dir/data"
    if [ -z "$SUITE" ]; then
        mariadb-install-db --no-defaults "${who[@]}" --datadir="$dir/data" --auth-root-authentication-method=normal --skip-test-db \
            >"$dir/init.log" 2>&1
        return
    fi
    # What mariadb-install-db does: that script would call programs that need our loader.
    mkdir -p "$dir/data"
    {
        printf '%s;\n' "CREATE DATABASE IF NOT EXISTS mysql" "USE mysql" "SET @auth_root_socket = NULL"   # one statement a line
        for part in mariadb_system_tables mariadb_performance_tables mariadb_system_tables_data fill_help_tables \
            maria_add_gis_sp_bootstrap mariadb_sys_schema; do cat "$SHARE/mariadb/$part.sql"; done
    } | run sbin/mariadbd "${base[@]}" --bootstrap --log-warnings=0 --enforce-storage-engine= --max-allowed-packet=8M \
        >"$dir/init.log" 2>&1 || { tail -5 "$dir/init.log" >&2; rm -rf "$dir/data"; return 1; }
}

start() {
    local dir port sock; mkdir -p "$1"; dir=$(cd "$1" && pwd); port=$2; shift 2; sock=$(socket_of "$dir")
    install
    alive "$dir" && return 0
    local who=() argv; [ "$(id -u)" = 0 ] && who=(--user=root)
    # A tmpdir of its own: a server that starts deletes the temporary tables it finds, were they another server's.
    mkdir -p "$dir/tmp"
    local base=(--no-defaults "${who[@]}" --datadir="$dir/data" --tmpdir="$dir/tmp")
    [ -n "$SUITE" ] && base+=(--basedir="$ROOT/usr" --lc-messages-dir="$SHARE/mariadb" --character-sets-dir="$SHARE/mariadb/charsets"
        --plugin-dir="$ROOT/usr/lib/mysql/plugin")
    [ -d "$dir/data/mysql" ] || create "$dir"
    cat >"$dir/init.sql" <<'SQL'
SET sql_log_bin = 0;
CREATE USER IF NOT EXISTS 'root'@'127.0.0.1' IDENTIFIED BY '';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS 'cdc'@'%' IDENTIFIED BY 'cdc';
GRANT SELECT, RELOAD, LOCK TABLES, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT, SLAVE MONITOR ON *.* TO 'cdc'@'%';
SQL
    rm -f "$dir/pid"
    program sbin/mariadbd
    setsid "${argv[@]}" "${base[@]}" --init-file="$dir/init.sql" \
        --character-set-server=utf8mb4 --innodb-buffer-pool-size=128M --innodb-flush-log-at-trx-commit=0 --sync-binlog=0 \
        --skip-name-resolve \
        --server-id=1 --log-bin=binlog --binlog-format=ROW --binlog-row-image=FULL --binlog-row-metadata=FULL \
        --bind-address=127.0.0.1 --port="$port" --socket="$sock" --pid-file="$dir/pid" "$@" \
        </dev/null >"$dir/mariadbd.log" 2>&1 &
    local pid=$!
    answers mariadbd "$dir" $pid 200 run bin/mariadb-admin --no-defaults -uroot -h127.0.0.1 -P"$port" ping
}

case ${1:-} in
    install) install ;;
    start) shift; start "$@" ;;
    stop) stop "$2" 30 ;;
    client) d=$(cd "$2" && pwd); shift 2; run bin/mariadb --no-defaults -uroot -S "$(socket_of "$d")" --default-character-set=utf8mb4 "$@" ;;
    binlog) shift; run bin/mariadb-binlog --no-defaults "$@" ;;
    *) sed -n '2,14p' "$0"; exit 2 ;;
esac
