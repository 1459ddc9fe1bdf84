#!/usr/bin/env bash
# Azurite for tests: Microsoft's emulator of Azure Blob Storage, from npm. Needs node (18 or newer) and npm.
#
#   azurite.sh install                      install the package (190 MB); once
#   azurite.sh start DATADIR PORT [--opt]   start, return when it answers; the account is devstoreaccount1 with its published key
#   azurite.sh stop  DATADIR                stop, return when gone
#
# Options of `start` go to the server. ACCOUNTS=name:key gives it other accounts.
set -euo pipefail
. "$(dirname "$0")/process.sh"
VERSION=${AZURITE_VERSION:-3.35.0}
HOME_DIR=${PENSTOCK_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock-servers}/azurite-$VERSION

install() {
    [ -e "$HOME_DIR/complete" ] && return 0
    mkdir -p "$HOME_DIR"
    # Two test processes may install at the same time.
    (
        flock 9
        [ -e "$HOME_DIR/complete" ] && exit 0
        npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$HOME_DIR" "azurite@$VERSION" >&2
        touch "$HOME_DIR/complete"
    ) 9>"$HOME_DIR/lock"
}

start() {
    local dir port; mkdir -p "$1"; dir=$(cd "$1" && pwd); port=$2; shift 2
    install
    alive "$dir" && return 0
    # The client uses newer versions of the protocol than the emulator. Its requests work when the check is skipped.
    (cd "$dir" && AZURITE_ACCOUNTS=${ACCOUNTS:-} exec setsid node "$HOME_DIR/node_modules/azurite/dist/src/blob/main.js" \
        --blobHost 127.0.0.1 --blobPort "$port" --location "$dir/data" --silent --disableTelemetry --skipApiVersionCheck "$@" \
        </dev/null >"$dir/azurite.log" 2>&1) &
    local pid=$!; echo $pid >"$dir/pid"
    answers azurite "$dir" $pid 60 curl -s -o /dev/null "http://127.0.0.1:$port/"
}

case ${1:-} in
    install) install ;;
    start) shift; start "$@" ;;
    stop) stop "$2" 10 ;;
    *) sed -n '2,8p' "$0"; exit 2 ;;
esac
