#!/usr/bin/env bash
# Iceberg's REST catalog for tests, from the jars of Iceberg's own tests, over an SQLite file. Needs a JDK and mvn.
#
#   iceberg.sh install            download the jars (32 MB); once
#   iceberg.sh start DIR PORT     create if new, start, return when it answers
#   iceberg.sh stop  DIR          return when gone
#
# PENSTOCK_SPARK_JARS is the folder with PySpark's jars, of which it uses Hadoop's client.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
HOME_DIR=${PENSTOCK_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock-servers}/iceberg
VERSION=1.10.0
FLAGS="-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"

alive() { [ -s "$1/iceberg.pid" ] && kill -0 "$(cat "$1/iceberg.pid")" 2>/dev/null; }
answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

install() {
    [ -d "$HOME_DIR/lib" ] && return 0
    local tmp=$HOME_DIR/lib.tmp.$$; mkdir -p "$tmp"
    cat >"$HOME_DIR/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>iceberg</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.iceberg</groupId><artifactId>iceberg-core</artifactId><version>$VERSION</version></dependency>
<dependency><groupId>org.apache.iceberg</groupId><artifactId>iceberg-core</artifactId><version>$VERSION</version><classifier>tests</classifier></dependency>
<dependency><groupId>org.eclipse.jetty</groupId><artifactId>jetty-server</artifactId><version>11.0.26</version></dependency>
<dependency><groupId>org.eclipse.jetty</groupId><artifactId>jetty-servlet</artifactId><version>11.0.26</version></dependency>
<dependency><groupId>org.xerial</groupId><artifactId>sqlite-jdbc</artifactId><version>3.46.1.3</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>2.0.17</version></dependency>
</dependencies></project>
XML
    (cd "$HOME_DIR" && mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$tmp")
    mv -T "$tmp" "$HOME_DIR/lib" 2>/dev/null || rm -rf "$tmp"  # another process was faster
}

start() {
    local dir port; mkdir -p "$1/warehouse"; dir=$(cd "$1" && pwd); port=$2
    install
    alive "$dir" && return 0
    local classes; classes=$(printf '%s:' "${PENSTOCK_SPARK_JARS:?is not set}"/hadoop-client-{api,runtime}-*.jar)$HOME_DIR/lib/*
    setsid java $FLAGS -cp "$classes" "$HERE/Iceberg.java" "$dir" "$port" </dev/null >"$dir/iceberg.log" 2>&1 &
    local pid=$!; echo $pid >"$dir/iceberg.pid"
    for _ in $(seq 2000); do
        answers "$port" && return 0
        kill -0 $pid 2>/dev/null || { tail -20 "$dir/iceberg.log" >&2; return 1; }
        sleep 0.1
    done
    echo "the catalog did not answer within 200 s; see $dir/iceberg.log" >&2; return 1
}

stop() {
    local dir; dir=$(cd "$1" 2>/dev/null && pwd) || return 0
    alive "$dir" || return 0
    local pid; pid=$(cat "$dir/iceberg.pid"); kill "$pid"
    for _ in $(seq $((${STOP_SECONDS:-30} * 10))); do kill -0 "$pid" 2>/dev/null || { rm -f "$dir/iceberg.pid"; return 0; }; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true; rm -f "$dir/iceberg.pid"
}

case ${1:-} in
    install) install ;;
    start) shift; start "$@" ;;
    stop) stop "$2" ;;
    *) sed -n '2,8p' "$0"; exit 2 ;;
esac
