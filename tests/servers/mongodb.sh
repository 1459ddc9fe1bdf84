#!/usr/bin/env bash
# A server that speaks MongoDB's protocol with change streams, sessions and transactions, for tests: SecantusDB, a program in Python from
# PyPI on the WiredTiger engine. No package registry has MongoDB itself; docs/quickstart-mongodb.md says what the two do differently.
#
#   mongodb.sh install                      a virtual environment of its own (150 MB), once
#   mongodb.sh start DATADIR PORT [--opt]   create if new, start, return when it answers: a replica set of one, version 8.2
#   mongodb.sh stop  DATADIR                clean shutdown, return when gone
#
# Options of `start` go to the server: --oplog-max-entries N, --auth.
set -euo pipefail
VERSION=${SECANTUS_VERSION:-0.7.0b3}
HOME_DIR=${PENSTOCK_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock-servers}/mongodb-$VERSION

install() {
    [ -e "$HOME_DIR/complete" ] && return 0
    mkdir -p "$HOME_DIR"
    # Two test processes may install at the same time.
    (
        flock 9
        [ -e "$HOME_DIR/complete" ] && exit 0
        python3 -m venv "$HOME_DIR"
        "$HOME_DIR/bin/pip" install -q --disable-pip-version-check "secantusdb==$VERSION" 'pymongo>=4.10' >/dev/null
        touch "$HOME_DIR/complete"
    ) 9>"$HOME_DIR/lock"
}

alive() { [ -s "$1/pid" ] && kill -0 "$(cat "$1/pid")" 2>/dev/null; }

start() {
    local dir port; mkdir -p "$1"; dir=$(cd "$1" && pwd); port=$2; shift 2
    install
    alive "$dir" && return 0
    cd "$dir"
    setsid "$HOME_DIR/bin/secantusd-py" --host 127.0.0.1 --port "$port" --storage-path "$dir/data" --cache-size 256M --log-level WARNING "$@" \
        </dev/null >"$dir/server.log" 2>&1 &
    local pid=$!; echo $pid >"$dir/pid"
    for _ in $(seq 2000); do
        kill -0 $pid 2>/dev/null || { tail -20 "$dir/server.log" >&2; return 1; }
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return 0
        sleep 0.1
    done
    echo "the server did not answer within 200 s; see $dir/server.log" >&2; return 1
}

stop() {
    local dir; dir=$(cd "$1" 2>/dev/null && pwd) || return 0
    alive "$dir" || return 0
    local pid; pid=$(cat "$dir/pid"); kill "$pid"
    for _ in $(seq $((${STOP_SECONDS:-20} * 10))); do kill -0 "$pid" 2>/dev/null || return 0; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true
}

case ${1:-} in
    install) install ;;
    start) shift; start "$@" ;;
    stop) stop "$2" ;;
    *) sed -n '2,9p' "$0"; exit 2 ;;
esac
