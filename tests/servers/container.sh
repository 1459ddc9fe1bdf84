#!/usr/bin/env bash
# A server of the kind in KIND from the image in IMAGE, for versions that no package has: needs a Docker daemon on Linux.
#
#   KIND=mysql    mysql:8.0, mysql:8.4, percona:8.0 and others with the entry point of MySQL's official image
#   KIND=mariadb  mariadb:10.6, mariadb:12 and others of the official image
#   KIND=mongodb  mongo:7, mongo:8 and others of the official image: a replica set of one
#
#   container.sh start DATADIR PORT [--opt]  create if new, start, return when it answers
#   container.sh kill  DATADIR               end at once, and keep the data
#   container.sh stop  DATADIR               clean shutdown; with STOP_SECONDS=0 the container and its data are removed
#
# `tests/servers/launch.py` calls it instead of KIND.sh if pytest has --docker KIND=IMAGE. Options and users are those of KIND.sh.
set -euo pipefail
name_of() { echo "penstock-$(printf %s "$1" | cksum | cut -d' ' -f1)"; }
LOG=(--server-id=1 --log-bin=binlog --binlog-format=ROW --binlog-row-image=FULL --binlog-row-metadata=FULL)
LIGHT=(--innodb-buffer-pool-size=128M --innodb-flush-log-at-trx-commit=0 --sync-binlog=0 --skip-name-resolve)
READER="SELECT, RELOAD, LOCK TABLES, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT"

create() {   # create NAME DIR PORT [--opt]
    local name=$1 dir=$2 port=$3; shift 3
    local words=(--bind-address=127.0.0.1 --port="$port")
    case $KIND in
        mysql) words+=("${LOG[@]}" "${LIGHT[@]}" --gtid-mode=ON --enforce-gtid-consistency=ON --mysqlx=OFF) ;;
        mariadb) words+=("${LOG[@]}" "${LIGHT[@]}" --character-set-server=utf8mb4); READER="$READER, SLAVE MONITOR" ;;
        mongodb) words=(--replSet rs0 --bind_ip 127.0.0.1 --port "$port") ;;
        *) echo "no server of the kind $KIND is started from an image: mysql, mariadb or mongodb" >&2; return 2 ;;
    esac
    # Run once, when the data are created. The server listens at its port only after that.
    cat >"$dir/users.sql" <<SQL
SET sql_log_bin = 0;
CREATE USER IF NOT EXISTS 'root'@'127.0.0.1' IDENTIFIED BY '';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS 'cdc'@'%' IDENTIFIED BY 'cdc';
GRANT $READER ON *.* TO 'cdc'@'%';
SQL
    chmod a+rx "$dir"; chmod a+r "$dir/users.sql"
    docker create --name "$name" --network host -e MYSQL_ALLOW_EMPTY_PASSWORD=yes -e MARIADB_ALLOW_EMPTY_ROOT_PASSWORD=yes \
        "$IMAGE" "${words[@]}" "$@" >/dev/null
    docker cp -q "$dir/users.sql" "$name:/docker-entrypoint-initdb.d/users.sql" 2>/dev/null \
        || docker cp "$dir/users.sql" "$name:/docker-entrypoint-initdb.d/users.sql" >/dev/null
}

answers() {   # answers NAME PORT
    for _ in $(seq 2000); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null; then return 0; fi
        [ "$(docker inspect -f '{{.State.Running}}' "$1")" = true ] || break
        sleep 0.1
    done
    docker logs --tail 20 "$1" >&2; echo "$IMAGE does not answer at port $2" >&2; return 1
}

start() {
    local dir port name; mkdir -p "$1"; dir=$(cd "$1" && pwd); port=$2; shift 2; name=$(name_of "$dir")
    docker container inspect "$name" >/dev/null 2>&1 || create "$name" "$dir" "$port" "$@"
    docker start "$name" >/dev/null
    answers "$name" "$port"
    [ "$KIND" = mongodb ] || return 0
    local shell; shell=$(docker exec "$name" sh -c 'command -v mongosh || command -v mongo')
    docker exec "$name" "$shell" --quiet --port "$port" --eval "
        try { rs.initiate({_id: 'rs0', members: [{_id: 0, host: '127.0.0.1:$port'}]}) } catch (e) { if (e.code !== 23) throw e }
        while (!db.hello().isWritablePrimary) sleep(100)" >/dev/null
}

stop() {
    if [ "${STOP_SECONDS:-}" = 0 ]; then docker rm -f -v "$1" >/dev/null 2>&1 || true
    else docker stop -t "${STOP_SECONDS:-30}" "$1" >/dev/null; fi
}

case ${1:-} in
    start) shift; start "$@" ;;
    kill) docker kill "$(name_of "$(cd "$2" && pwd)")" >/dev/null ;;
    stop) [ -d "$2" ] || exit 0; stop "$(name_of "$(cd "$2" && pwd)")" ;;
    *) sed -n '2,12p' "$0"; exit 2 ;;
esac
