#!/usr/bin/env bash
# A real Apache Pulsar broker for tests (3.0, standalone: broker, one bookie, RocksDB, no ZooKeeper) from Maven Central's jars. Needs java (17) and mvn.
#
#   pulsar.sh install                      download the jars of pulsar.jars (183 MB); once. PULSAR_LIB=<dir with the jars> skips this
#   pulsar.sh start DATADIR PORT [k=v...]  create if new, start, return when it answers. Uses PORT (broker), PORT+1 (http, admin), PORT+2 (bookie)
#   pulsar.sh stop  DATADIR                clean shutdown, return when gone
#
# Extra arguments of `start` are broker settings, for instance defaultRetentionTimeInMinutes=60. PULSAR_TOKEN is a token for the admin interface.
set -euo pipefail
. "$(dirname "$0")/process.sh"
HERE=$(cd "$(dirname "$0")" && pwd)
HOME_DIR=${PENSTOCK_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock-servers}/pulsar
LIB=${PULSAR_LIB:-$HOME_DIR/lib}
heap=${PULSAR_HEAP:-512m}

install() {
    ls "$LIB"/pulsar-broker-3*.jar >/dev/null 2>&1 && return 0
    local build=$HOME_DIR/build tmp=$LIB.tmp.$$; mkdir -p "$build" "$tmp"
    # Each jar without what it depends on: the list is the whole tree, so no version is searched and no other repository asked.
    {
        echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>local</groupId><artifactId>pulsar</artifactId><version>1</version><dependencies>'
        while IFS=: read -r group artifact version classifier; do
            [ -n "$group" ] || continue
            echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version>${classifier:+<classifier>$classifier</classifier>}<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        done <"$HERE/pulsar.jars"
        echo '</dependencies></project>'
    } >"$build/pom.xml"
    (cd "$build" && mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$tmp")
    rm -rf "$LIB"; mv "$tmp" "$LIB"
}

start() {
    local dir port; mkdir -p "$1"; dir=$(cd "$1" && pwd); port=$2; shift 2
    install
    alive "$dir" && return 0
    echo "$port" >"$dir/port"
    cat >"$dir/standalone.conf" <<P
brokerServicePort=$port
webServicePort=$((port + 1))
bindAddress=127.0.0.1
advertisedAddress=127.0.0.1
clusterName=standalone
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
managedLedgerCacheSizeMB=32
loadBalancerEnabled=false
allowAutoTopicCreationType=non-partitioned
defaultNumberOfNamespaceBundles=1
numIOThreads=2
numHttpServerThreads=4
transactionCoordinatorEnabled=false
diskUsageThreshold=0.99
$(printf '%s\n' "$@")
P
    cat >"$dir/log4j2.properties" <<'P'
rootLogger.level = warn
rootLogger.appenderRef.out.ref = OUT
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1} %m%n
P
    local opens=(--add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/sun.net=ALL-UNNAMED
        --add-opens=java.base/jdk.internal.misc=ALL-UNNAMED --add-opens=java.base/jdk.internal.platform=ALL-UNNAMED --add-opens=java.management/sun.management=ALL-UNNAMED)
    setsid java -Xmx"$heap" -XX:MaxDirectMemorySize=256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dio.netty.tryReflectionSetAccessible=true \
        -Dlog4j2.configurationFile="file:$dir/log4j2.properties" "${opens[@]}" -cp "$LIB/*" org.apache.pulsar.PulsarStandaloneStarter \
        -c "$dir/standalone.conf" -nfw -nss -a 127.0.0.1 --bookkeeper-port $((port + 2)) --metadata-dir "$dir/data/metadata" --bookkeeper-dir "$dir/data/bookkeeper" \
        </dev/null >"$dir/pulsar.log" 2>&1 &
    local pid=$!; echo $pid >"$dir/pid"
    # The namespace public/default is made last.
    answers pulsar "$dir" $pid 200 curl -sf ${PULSAR_TOKEN:+-H "Authorization: Bearer $PULSAR_TOKEN"} "http://127.0.0.1:$((port + 1))/admin/v2/persistent/public/default"
}

case ${1:-} in
    install) install ;;
    start) shift; start "$@" ;;
    stop) stop "$2" 30 ;;
    *) sed -n '2,8p' "$0"; exit 2 ;;
esac
