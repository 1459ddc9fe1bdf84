#!/usr/bin/env bash
# A real HDFS for tests (3.3, one name node, one data node) from Maven Central's jars. Needs java (11 or newer) and mvn.
# The jars hold YARN too: yarn.sh starts it, and needs those of Bouncy Castle and JAXB.
#
#   hdfs.sh install              download the jars (100 MB); once. HDFS_LIB=<dir with the jars> skips this
#   hdfs.sh start DATADIR PORT   create, start, return when it answers
#   hdfs.sh stop  DATADIR        stop, return when gone
set -euo pipefail
. "$(dirname "$0")/process.sh"
HOME_DIR=${PENSTOCK_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock-servers}/hdfs
LIB=${HDFS_LIB:-$HOME_DIR/lib}
VERSION=${HDFS_VERSION:-3.3.6}
heap=${HDFS_HEAP:-400m}

install() {
    ls "$LIB"/hadoop-client-minicluster-*.jar "$LIB"/bcpkix-*.jar "$LIB"/jaxb-runtime-*.jar >/dev/null 2>&1 && return 0
    local build=$HOME_DIR/build; mkdir -p "$build"
    cat >"$build/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>hdfs</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-minicluster</artifactId><version>$VERSION</version></dependency>
<dependency><groupId>org.bouncycastle</groupId><artifactId>bcpkix-jdk15on</artifactId><version>1.68</version></dependency>
<dependency><groupId>org.glassfish.jaxb</groupId><artifactId>jaxb-runtime</artifactId><version>2.3.9</version></dependency>
<dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.13.2</version></dependency>
<dependency><groupId>ch.qos.reload4j</groupId><artifactId>reload4j</artifactId><version>1.2.22</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
XML
    (cd "$build" && mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$LIB")
}

start() {
    local dir; mkdir -p "$1"; dir=$(cd "$1" && pwd)
    install
    alive "$dir" && return 0
    rm -f "$dir/details"
    # Its folders go below the working directory.
    (cd "$dir" && exec setsid java -Xmx"$heap" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$LIB/*" \
        org.apache.hadoop.test.MiniDFSClusterManager -format -datanodes 1 -nnport "$2" -writeDetails "$dir/details" \
        -D dfs.replication=1 </dev/null >"$dir/hdfs.log" 2>&1) &
    local pid=$!; echo $pid >"$dir/pid"
    answers hdfs "$dir" $pid 200 test -s "$dir/details"
}

case ${1:-} in
    install) install ;;
    start) shift; start "$@" ;;
    stop) stop "$2" 10 ;;
    *) sed -n '2,8p' "$0"; exit 2 ;;
esac
