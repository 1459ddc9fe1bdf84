#!/usr/bin/env bash
# A real Hive metastore (2.3, from the jars of PySpark) for tests, without root, Hadoop or downloads. Its database is an embedded Derby.
#
#   hive.sh start DIR PORT    create if new, start, return when it answers; the warehouse is DIR/warehouse
#   hive.sh stop  DIR         return when gone
#
# PENSTOCK_SPARK_JARS is the folder with PySpark's jars. It needs a JDK.
set -euo pipefail

alive() { [ -s "$1/hive.pid" ] && kill -0 "$(cat "$1/hive.pid")" 2>/dev/null; }
answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

start() {
    local dir port classes; mkdir -p "$1/warehouse"; dir=$(cd "$1" && pwd); port=$2
    alive "$dir" && return 0
    classes="$dir:${PENSTOCK_SPARK_JARS:?is not set}/*"
    cat >"$dir/hive-site.xml" <<XML
<configuration>
<property><name>javax.jdo.option.ConnectionURL</name><value>jdbc:derby:$dir/metastore_db;create=true</value></property>
<property><name>hive.metastore.warehouse.dir</name><value>file:$dir/warehouse</value></property>
<property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
<property><name>hive.metastore.schema.verification</name><value>false</value></property>
<property><name>hive.metastore.event.db.notification.api.auth</name><value>false</value></property>
<property><name>datanucleus.connectionPoolingType</name><value>hikaricp</value></property>
<property><name>hive.async.log.enabled</name><value>false</value></property>
<property><name>hive.txn.manager</name><value>org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager</value></property>
</configuration>
XML
    [ -d "$dir/metastore_db" ] || prepare_locks "$dir" "$classes"
    setsid java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dderby.system.home="$dir" -Dderby.stream.error.file="$dir/derby.log" $OPENS \
        -cp "$classes" org.apache.hadoop.hive.metastore.HiveMetaStore -p "$port" </dev/null >"$dir/hive.log" 2>&1 &
    local pid=$!; echo $pid >"$dir/hive.pid"
    for _ in $(seq 1200); do
        answers "$port" && return 0
        kill -0 $pid 2>/dev/null || { tail -20 "$dir/hive.log" >&2; return 1; }
        sleep 0.1
    done
    echo "the metastore did not answer within 120 s; see $dir/hive.log" >&2; return 1
}
OPENS="--add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.net=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED"

# The metastore does not create the tables of its locks by itself.
prepare_locks() {
    cat >"$1/Locks.java" <<'JAVA'
public class Locks { public static void main(String[] a) throws Exception {
  org.apache.hadoop.hive.metastore.txn.TxnDbUtil.prepDb(new org.apache.hadoop.hive.conf.HiveConf()); } }
JAVA
    java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 $OPENS -Dderby.system.home="$1" -Dderby.stream.error.file="$1/derby.log" -cp "$2" "$1/Locks.java" >"$1/locks.log" 2>&1 ||
        { tail -20 "$1/locks.log" >&2; return 1; }
}

stop() {
    local dir pid; dir=$(cd "$1" 2>/dev/null && pwd) || return 0
    alive "$dir" || return 0
    pid=$(cat "$dir/hive.pid"); kill "$pid"
    for _ in $(seq $((${STOP_SECONDS:-30} * 10))); do kill -0 "$pid" 2>/dev/null || { rm -f "$dir/hive.pid"; return 0; }; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true; rm -f "$dir/hive.pid"
}

case ${1:-} in
    start) shift; start "$@" ;;
    stop) stop "$2" ;;
    *) sed -n '2,7p' "$0"; exit 2 ;;
esac
