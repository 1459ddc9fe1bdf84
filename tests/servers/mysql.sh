#!/usr/bin/env bash
# A real MySQL server (9.7 LTS) for tests on a Debian or Ubuntu machine of any age, without root. The packages come from Debian
# unstable, are unpacked into a folder of their own and run with their own dynamic loader: the system stays as it is.
#
#   mysql.sh install                     download + unpack (66 MB down, 345 MB on disk, about 10 s); once
#   mysql.sh start DATADIR PORT [--opt]  create if new, start, return when it answers
#   mysql.sh stop  DATADIR               clean shutdown, return when gone
#   mysql.sh client DATADIR [args]       the mysql command line as root over the socket
#   mysql.sh binlog DATADIR [args]       mysqlbinlog
#
# Extra arguments of `start` go to mysqld, for instance --binlog-row-metadata=MINIMAL or --default-time-zone=+08:00.
# Users: root@localhost without password (socket and 127.0.0.1), and cdc/cdc with what a CDC reader needs.
set -euo pipefail
. "$(dirname "$0")/process.sh"
HOME_DIR=${PENSTOCK_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock-servers}/mysql
ROOT=$HOME_DIR/root
LIBS=$ROOT/usr/lib/x86_64-linux-gnu
run() { local bin=$1; shift; "$ROOT/usr/lib64/ld-linux-x86-64.so.2" --library-path "$LIBS" "$ROOT/usr/$bin" "$@"; }

install() {
    [ -x "$ROOT/usr/sbin/mysqld" ] && return 0
    local apt=$HOME_DIR/apt tmp=$ROOT.tmp.$$
    mkdir -p "$apt"/{etc/apt.conf.d,etc/preferences.d,lists/partial,cache/archives/partial,tmp}
    : >"$apt/status"
    # The Debian archive this machine already uses (on another distribution name one in DEBIAN_MIRROR; needs debian-archive-keyring).
    local mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | sort -u | head -1)}
    [ -n "$mirror" ] || { echo "no Debian archive in the apt sources: set DEBIAN_MIRROR to one" >&2; return 1; }
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$apt/etc/sources.list"
    local opts=(-o Dir::Etc="$apt/etc" -o Dir::Etc::parts="$apt/etc/apt.conf.d" -o Dir::State="$apt" -o Dir::State::lists="$apt/lists"
        -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o Debug::NoLocking=1 -o APT::Sandbox::User=root
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
    apt-get "${opts[@]}" -qq update
    # The names of everything mysqld and its client link to; perl and its friends (only needed by helper scripts) are left out.
    apt-get "${opts[@]}" -qq -y --download-only --no-install-recommends install mysql-server-core mysql-client-core >/dev/null
    rm -rf "$tmp"; mkdir -p "$tmp"
    for deb in "$apt"/cache/archives/*.deb; do
        case ${deb##*/} in perl*|libperl*|libgdbm*|libdb5*) ;; *) dpkg-deb -x "$deb" "$tmp" ;; esac
    done
    rm -rf "$ROOT"; mv "$tmp" "$ROOT"; rm -rf "$apt/cache"
}

socket_of() {   # a unix socket path may have at most 107 characters
    local s=$1/mysql.sock; [ ${#s} -gt 100 ] && s=/tmp/mysql-$(printf %s "$1" | cksum | cut -d' ' -f1).sock; echo "$s"
}

create() {   # create DIR [--opt]: an empty data directory, a copy of one that is initialized once
    local dir=$1; shift
    local once=() option   # what a server has for life
    for option; do case $option in --lower-case-table-names=*) once+=("$option") ;; esac; done
    local empty; empty=$HOME_DIR/empty-$(printf %s "$(stat -c %s-%Y "$ROOT/usr/sbin/mysqld") ${tune[*]} ${once[*]}" | cksum | cut -d' ' -f1)
    if [ ! -d "$empty" ]; then
        local made=$HOME_DIR/making.$$
        rm -rf "$made"
        run sbin/mysqld "${base[@]}" --datadir="$made" "${tune[@]}" "${once[@]}" --initialize-insecure >"$dir/init.log" 2>&1
        rm -f "$made/auto.cnf"   # the identity of a server: each makes its own
        mv -T "$made" "$empty" 2>/dev/null || rm -rf "$made"   # another process was first
    fi
    rm -rf "$dir/data"
    cp -r "$empty" "$dir/data"
}

start() {
    local dir port sock; mkdir -p "$1"; dir=$(cd "$1" && pwd); port=$2; shift 2; sock=$(socket_of "$dir")
    install
    alive "$dir" && return 0
    local who=(); [ "$(id -u)" = 0 ] && who=(--user=root)
    local base=(--no-defaults "${who[@]}" --datadir="$dir/data" --lc-messages-dir="$ROOT/usr/share/mysql"
        --character-sets-dir="$ROOT/usr/share/mysql/charsets" --plugin-dir="$ROOT/usr/lib/mysql/plugin")
    local tune=(--innodb-buffer-pool-size=128M --innodb-flush-log-at-trx-commit=0 --sync-binlog=0 --innodb-redo-log-capacity=64M
        --performance-schema=OFF --mysqlx=OFF --skip-name-resolve --secure-file-priv=)
    local log=(--server-id=1 --log-bin=binlog --binlog-format=ROW --binlog-row-image=FULL --binlog-row-metadata=FULL
        --gtid-mode=ON --enforce-gtid-consistency=ON)
    [ -d "$dir/data/mysql" ] || create "$dir" "$@"
    cat >"$dir/init.sql" <<'SQL'
SET sql_log_bin = 0;
CREATE USER IF NOT EXISTS 'root'@'127.0.0.1' IDENTIFIED BY '';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS 'cdc'@'%' IDENTIFIED BY 'cdc';
GRANT SELECT, RELOAD, LOCK TABLES, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'cdc'@'%';
SQL
    base+=(--init-file="$dir/init.sql")   # idempotent, so it runs at every start
    rm -f "$dir/pid"
    setsid "$ROOT/usr/lib64/ld-linux-x86-64.so.2" --library-path "$LIBS" "$ROOT/usr/sbin/mysqld" "${base[@]}" "${tune[@]}" "${log[@]}" \
        --bind-address=127.0.0.1 --port="$port" --socket="$sock" --pid-file="$dir/pid" "$@" \
        </dev/null >"$dir/mysqld.log" 2>&1 &
    local pid=$!
    answers mysqld "$dir" $pid 200 run bin/mysqladmin --no-defaults -uroot -h127.0.0.1 -P"$port" ping
}

case ${1:-} in
    install) install ;;
    start) shift; start "$@" ;;
    stop) stop "$2" 30 ;;
    client) d=$(cd "$2" && pwd); shift 2; run bin/mysql --no-defaults -uroot -S "$(socket_of "$d")" --default-character-set=utf8mb4 \
        --character-sets-dir="$ROOT/usr/share/mysql/charsets" "$@" ;;
    binlog) shift 2; run bin/mysqlbinlog --no-defaults --character-sets-dir="$ROOT/usr/share/mysql/charsets" "$@" ;;
    *) sed -n '2,13p' "$0"; exit 2 ;;
esac
