#!/usr/bin/env bash
# A real Apache Kafka broker for tests (3.9, one node, KRaft) from Maven Central's jars. Needs java (11 or newer) and mvn.
#
#   kafka.sh install                      download the jars (56 MB); once. KAFKA_LIB=<dir with the jars> skips this
#   kafka.sh start DATADIR PORT [k=v...]  create if new, start, return when it answers (uses PORT and PORT+1)
#   kafka.sh stop  DATADIR                clean shutdown, return when gone
#   kafka.sh topics DATADIR [args]        kafka-topics with the bootstrap server filled in
#
# Extra arguments of `start` are broker settings, for instance num.partitions=4.
set -euo pipefail
. "$(dirname "$0")/process.sh"
HOME_DIR=${PENSTOCK_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock-servers}/kafka
LIB=${KAFKA_LIB:-$HOME_DIR/lib}
VERSION=${KAFKA_VERSION:-3.9.1}
heap=${KAFKA_HEAP:-512m}

install() {
    ls "$LIB"/kafka_2.13-*.jar >/dev/null 2>&1 && return 0
    local build=$HOME_DIR/build; mkdir -p "$build"
    cat >"$build/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$VERSION</version><exclusions><exclusion><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId></exclusion></exclusions></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$VERSION</version><exclusions><exclusion><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId></exclusion></exclusions></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
XML
    (cd "$build" && mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$LIB")
}

start() {
    local dir port; mkdir -p "$1"; dir=$(cd "$1" && pwd); port=$2; shift 2
    install
    alive "$dir" && return 0
    echo "$port" >"$dir/port"
    cat >"$dir/server.properties" <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/log
log.retention.ms=-1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=true
$(printf '%s\n' "$@")
P
    local java=(java -Xmx"$heap" -XX:+UseSerialGC -XX:TieredStopAtLevel=4 -cp "$LIB/*")
    [ -f "$dir/log/meta.properties" ] ||
        "${java[@]}" kafka.tools.StorageTool format -t MkU3OEVBNTcwNTJENDM2Qg -c "$dir/server.properties" >"$dir/init.log" 2>&1
    setsid "${java[@]}" kafka.Kafka "$dir/server.properties" </dev/null >"$dir/kafka.log" 2>&1 &
    local pid=$!; echo $pid >"$dir/pid"
    # The listener opens only when the broker is registered and unfenced enough to serve metadata.
    answers kafka "$dir" $pid 200 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"
}

case ${1:-} in
    install) install ;;
    start) shift; start "$@" ;;
    stop) stop "$2" 30 ;;
    topics) d=$(cd "$2" && pwd); shift 2; exec java -cp "$LIB/*" org.apache.kafka.tools.TopicCommand --bootstrap-server "127.0.0.1:$(cat "$d/port")" "$@" ;;
    *) sed -n '2,9p' "$0"; exit 2 ;;
esac
