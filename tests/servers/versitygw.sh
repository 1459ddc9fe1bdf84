#!/usr/bin/env bash
# Versity's gateway for tests: S3 over a folder, which keeps conditions also among many writers. A Go module; needs go (1.25 or newer).
#
#   versitygw.sh install              build it (85 MB); once, minutes of all cores. `make nightly` does, tests do not
#   versitygw.sh is-built             succeed if it is there
#   versitygw.sh start DATADIR PORT   start, return when it answers; the access key is AKTEST, the secret key hidden
#   versitygw.sh stop  DATADIR        stop, return when gone
set -euo pipefail
. "$(dirname "$0")/process.sh"
VERSION=${VERSITYGW_VERSION:-v1.8.0}
HOME_DIR=${PENSTOCK_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock-servers}/versitygw-$VERSION

install() {
    [ -x "$HOME_DIR/versitygw" ] && return 0
    mkdir -p "$HOME_DIR"
    # Two test processes may install at the same time.
    (
        flock 9
        [ -x "$HOME_DIR/versitygw" ] && exit 0
        cd "$HOME_DIR" && GOBIN=$HOME_DIR/new timeout "${BUILD_SECONDS:-600}" go install "github.com/versity/versitygw/cmd/versitygw@$VERSION" >&2
        mv "$HOME_DIR/new/versitygw" "$HOME_DIR/versitygw"
    ) 9>"$HOME_DIR/lock"
}

start() {
    local dir; mkdir -p "$1/data"; dir=$(cd "$1" && pwd)
    alive "$dir" && return 0
    # Attributes of objects are files beside them: not every file system has extended attributes.
    mkdir -p "$dir/attributes"
    (cd "$dir" && ROOT_ACCESS_KEY=AKTEST ROOT_SECRET_KEY=hidden exec setsid "$HOME_DIR/versitygw" --port "127.0.0.1:$2" --health /health \
        posix --sidecar "$dir/attributes" "$dir/data" </dev/null >"$dir/versitygw.log" 2>&1) &
    local pid=$!; echo $pid >"$dir/pid"
    answers versitygw "$dir" $pid 60 curl -sf "http://127.0.0.1:$2/health"
}

case ${1:-} in
    install) install ;;
    is-built) [ -x "$HOME_DIR/versitygw" ] ;;
    start) shift; start "$@" ;;
    stop) stop "$2" 10 ;;
    *) sed -n '2,7p' "$0"; exit 2 ;;
esac
