#!/usr/bin/env bash
# A real MariaDB server for tests.
#
#   mariadb.sh install                     apt package (root only; MariaDB 10.11 on Debian 12)
#   mariadb.sh start DATADIR PORT [--opt]  create if new, start, return when it answers
#   mariadb.sh stop  DATADIR               clean shutdown, return when gone
#   mariadb.sh client DATADIR [args]       the mariadb command line as root over the socket
#   mariadb.sh binlog [args]               mariadb-binlog
#
# Extra arguments of `start` go to mariadbd. Users as in mysql.sh: root@127.0.0.1 without password, cdc/cdc for readers.
set -euo pipefail
. "$(dirname "$0")/process.sh"

install() {
    command -v mariadbd >/dev/null && return 0
    export DEBIAN_FRONTEND=noninteractive
    # The package would start a system server of its own: keep it from doing that.
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d
    apt-get -qq update; apt-get -qq -y --no-install-recommends install mariadb-server >/dev/null; rm -f /usr/sbin/policy-rc.d
}

socket_of() { local s=$1/mariadb.sock; [ ${#s} -gt 100 ] && s=/tmp/mariadb-$(printf %s "$1" | cksum | cut -d' ' -f1).sock; echo "$s"; }

start() {
    local dir port sock; mkdir -p "$1"; dir=$(cd "$1" && pwd); port=$2; shift 2; sock=$(socket_of "$dir")
    install
    alive "$dir" && return 0
    local who=(); [ "$(id -u)" = 0 ] && who=(--user=root)
    if [ ! -d "$dir/data/mysql" ]; then
        rm -rf "$dir/data"
        mariadb-install-db --no-defaults "${who[@]}" --datadir="$dir/data" --auth-root-authentication-method=normal --skip-test-db \
            >"$dir/init.log" 2>&1
    fi
    cat >"$dir/init.sql" <<'SQL'
SET sql_log_bin = 0;
CREATE USER IF NOT EXISTS 'root'@'127.0.0.1' IDENTIFIED BY '';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS 'cdc'@'%' IDENTIFIED BY 'cdc';
GRANT SELECT, RELOAD, LOCK TABLES, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT, SLAVE MONITOR ON *.* TO 'cdc'@'%';
SQL
    rm -f "$dir/pid"
    # Of its own: a server that starts deletes the temporary tables it finds, were they another server's.
    mkdir -p "$dir/tmp"
    setsid mariadbd --no-defaults "${who[@]}" --datadir="$dir/data" --tmpdir="$dir/tmp" --init-file="$dir/init.sql" \
        --character-set-server=utf8mb4 --innodb-buffer-pool-size=128M --innodb-flush-log-at-trx-commit=0 --sync-binlog=0 \
        --skip-name-resolve \
        --server-id=1 --log-bin=binlog --binlog-format=ROW --binlog-row-image=FULL --binlog-row-metadata=FULL \
        --bind-address=127.0.0.1 --port="$port" --socket="$sock" --pid-file="$dir/pid" "$@" \
        </dev/null >"$dir/mariadbd.log" 2>&1 &
    local pid=$!
    answers mariadbd "$dir" $pid 30 mariadb-admin --no-defaults -uroot -h127.0.0.1 -P"$port" ping
}

case ${1:-} in
    install) install ;;
    start) shift; start "$@" ;;
    stop) stop "$2" 30 ;;
    client) d=$(cd "$2" && pwd); shift 2; mariadb --no-defaults -uroot -S "$(socket_of "$d")" --default-character-set=utf8mb4 "$@" ;;
    binlog) shift; mariadb-binlog --no-defaults "$@" ;;
    *) sed -n '2,10p' "$0"; exit 2 ;;
esac
