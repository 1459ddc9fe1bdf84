#!/usr/bin/env bash
# A real YARN over a real HDFS for tests, one node of each, from the jars of hdfs.sh. Needs a JDK (11 or newer) and mvn.
#
#   yarn.sh install              what hdfs.sh downloads; once
#   yarn.sh start DATADIR PORT   start, return when it takes applications; DATADIR/conf is for HADOOP_CONF_DIR
#   yarn.sh stop  DATADIR        stop, return when gone
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/process.sh"
LIB=${HDFS_LIB:-${PENSTOCK_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock-servers}/hdfs/lib}
heap=${YARN_HEAP:-500m}

start() {
    local dir; mkdir -p "$1"; dir=$(cd "$1" && pwd)
    "$HERE/hdfs.sh" install
    alive "$dir" && return 0
    rm -rf "$dir/conf"
    # Containers are started with the node manager's JAVA_HOME.
    export JAVA_HOME=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")}
    (cd "$dir" && exec setsid "$JAVA_HOME/bin/java" -Xmx"$heap" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
        --add-opens java.base/java.lang=ALL-UNNAMED -cp "$LIB/*" \
        "$HERE/Yarn.java" "$2" "$dir/conf" </dev/null >"$dir/yarn.log" 2>&1) &
    local pid=$!; echo $pid >"$dir/pid"
    answers yarn "$dir" $pid 200 test -s "$dir/conf/yarn-site.xml"
}

case ${1:-} in
    install) "$HERE/hdfs.sh" install ;;
    start) shift; start "$@" ;;
    stop) stop "$2" 15 ;;
    *) sed -n '2,6p' "$0"; exit 2 ;;
esac
