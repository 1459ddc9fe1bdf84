#!/usr/bin/env bash
# A real Hive metastore for tests, without root, Hadoop or Docker. Its database is an embedded Derby.
#
#   hive.sh install            download the jars of the series (3.1: 30 MB, 4.0: 85 MB); once. 2.3 needs none
#   hive.sh start DIR PORT     create if new, start, return when it answers; the warehouse is DIR/warehouse
#   hive.sh stop  DIR          return when gone
#
# HIVE_SERIES is 2.3 (the default, from the jars of PySpark), 3.1 or 4.0. PENSTOCK_SPARK_JARS is the folder with PySpark's jars, which also
# have Hadoop's client. It needs a JDK, and mvn for other series than 2.3.
set -euo pipefail
SERIES=${HIVE_SERIES:-2.3}
HOME_DIR=${PENSTOCK_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock-servers}/hive-$SERIES
FLAGS="-XX:+UseSerialGC -XX:TieredStopAtLevel=1 --add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.net=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED"

alive() { [ -s "$1/hive.pid" ] && kill -0 "$(cat "$1/hive.pid")" 2>/dev/null; }
answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

install() {
    local artifact=hive-standalone-metastore version=3.1.3 more=
    case $SERIES in
        2.3) return 0 ;;
        3.1) ;;
        # Its own code names one class of HDFS, which Hadoop's client does not have.
        4.0) artifact=hive-standalone-metastore-server version=4.0.1
            more='<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-hdfs</artifactId><version>3.3.5</version><exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>' ;;
        *) echo "there is no metastore of the series $SERIES here: 2.3, 3.1 or 4.0" >&2; return 1 ;;
    esac
    [ -d "$HOME_DIR/lib" ] && return 0
    local tmp=$HOME_DIR/lib.tmp.$$; mkdir -p "$tmp"
    # Hadoop's client has these for itself only.
    more+='<dependency><groupId>commons-cli</groupId><artifactId>commons-cli</artifactId><version>1.5.0</version></dependency>
<dependency><groupId>commons-collections</groupId><artifactId>commons-collections</artifactId><version>3.2.2</version></dependency>'
    # Hadoop comes from PySpark; Kerberos and a second implementation of the log are not needed.
    cat >"$HOME_DIR/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>hive</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.hive</groupId><artifactId>$artifact</artifactId><version>$version</version><exclusions>
<exclusion><groupId>jdk.tools</groupId><artifactId>jdk.tools</artifactId></exclusion>
<exclusion><groupId>org.apache.hadoop</groupId><artifactId>*</artifactId></exclusion>
<exclusion><groupId>org.apache.kerby</groupId><artifactId>*</artifactId></exclusion>
<exclusion><groupId>log4j</groupId><artifactId>log4j</artifactId></exclusion>
<exclusion><groupId>ch.qos.reload4j</groupId><artifactId>*</artifactId></exclusion>
<exclusion><groupId>org.slf4j</groupId><artifactId>slf4j-log4j12</artifactId></exclusion>
<exclusion><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId></exclusion>
</exclusions></dependency>$more</dependencies></project>
XML
    (cd "$HOME_DIR" && mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$tmp")
    mv -T "$tmp" "$HOME_DIR/lib" 2>/dev/null || rm -rf "$tmp"  # another process was faster
}

classes_of() {
    local jars=${PENSTOCK_SPARK_JARS:?is not set}
    [ "$SERIES" = 2.3 ] && { echo "$1:$jars/*"; return; }
    printf '%s:' "$1" "$jars"/hadoop-client-{api,runtime}-*.jar
    echo "$HOME_DIR/lib/*"
}

start() {
    local dir port classes; mkdir -p "$1/warehouse"; dir=$(cd "$1" && pwd); port=$2
    alive "$dir" && return 0
    install
    classes=$(classes_of "$dir")
    cat >"$dir/hive-site.xml" <<XML
<configuration>
<property><name>javax.jdo.option.ConnectionURL</name><value>jdbc:derby:$dir/metastore_db;create=true</value></property>
<property><name>hive.metastore.warehouse.dir</name><value>file:$dir/warehouse</value></property>
<property><name>hive.metastore.warehouse.external.dir</name><value>file:$dir/external</value></property>
<property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
<property><name>hive.metastore.schema.verification</name><value>false</value></property>
<property><name>hive.metastore.event.db.notification.api.auth</name><value>false</value></property>
<property><name>metastore.task.threads.always</name><value>org.apache.hadoop.hive.metastore.events.EventCleanerTask</value></property>
<property><name>metastore.expression.proxy</name><value>org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy</value></property>
<property><name>metastore.thrift.port</name><value>$port</value></property>
<property><name>datanucleus.connectionPoolingType</name><value>hikaricp</value></property>
<property><name>hive.async.log.enabled</name><value>false</value></property>
<property><name>hive.txn.manager</name><value>org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager</value></property>
</configuration>
XML
    [ -d "$dir/metastore_db" ] || prepare_locks "$dir" "$classes"
    setsid java -Xmx512m $FLAGS -Dderby.system.home="$dir" -Dderby.stream.error.file="$dir/derby.log" \
        -cp "$classes" org.apache.hadoop.hive.metastore.HiveMetaStore -p "$port" </dev/null >"$dir/hive.log" 2>&1 &
    local pid=$!; echo $pid >"$dir/hive.pid"
    for _ in $(seq 2000); do
        answers "$port" && return 0
        kill -0 $pid 2>/dev/null || { tail -20 "$dir/hive.log" >&2; return 1; }
        sleep 0.1
    done
    echo "the metastore did not answer within 200 s; see $dir/hive.log" >&2; return 1
}

# The metastore does not create the tables of its locks by itself. Administrators create them with all others, by Hive's schematool.
prepare_locks() {
    case $SERIES in
        2.3) program 'org.apache.hadoop.hive.metastore.txn.TxnDbUtil.prepDb(new org.apache.hadoop.hive.conf.HiveConf());' ;;
        3.1) program 'org.apache.hadoop.hive.metastore.txn.TxnDbUtil.prepDb(org.apache.hadoop.hive.metastore.conf.MetastoreConf.newMetastoreConf());' ;;
        4.0) program "$(statements "$1")" ;;
    esac >"$1/Locks.java"
    java $FLAGS -Dderby.system.home="$1" -Dderby.stream.error.file="$1/derby.log" -cp "$2" "$1/Locks.java" >"$1/locks.log" 2>&1 ||
        { tail -20 "$1/locks.log" >&2; return 1; }
}

program() { echo "public class Locks { public static void main(String[] a) throws Exception { $1 } }"; }

# Hive 4 has no class for this: the tables that its locks need, as in its schema for Derby.
statements() {
    echo "try (java.sql.Connection c = java.sql.DriverManager.getConnection(\"jdbc:derby:$1/metastore_db;create=true\"); java.sql.Statement s = c.createStatement()) {"
    while IFS= read -r line; do [ -z "$line" ] || echo "s.execute(\"$line\");"; done <<'SQL'
CREATE TABLE TXNS (TXN_ID bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, TXN_STATE char(1) NOT NULL, TXN_STARTED bigint NOT NULL, TXN_LAST_HEARTBEAT bigint NOT NULL, TXN_USER varchar(128) NOT NULL, TXN_HOST varchar(128) NOT NULL, TXN_AGENT_INFO varchar(128), TXN_META_INFO varchar(128), TXN_HEARTBEAT_COUNT integer, TXN_TYPE integer)
CREATE TABLE TXN_COMPONENTS (TC_TXNID bigint NOT NULL, TC_DATABASE varchar(128) NOT NULL, TC_TABLE varchar(128), TC_PARTITION varchar(767), TC_OPERATION_TYPE char(1) NOT NULL, TC_WRITEID bigint)
CREATE TABLE TXN_LOCK_TBL (TXN_LOCK bigint NOT NULL)
INSERT INTO TXN_LOCK_TBL VALUES(1)
CREATE TABLE HIVE_LOCKS (HL_LOCK_EXT_ID bigint NOT NULL, HL_LOCK_INT_ID bigint NOT NULL, HL_TXNID bigint NOT NULL, HL_DB varchar(128) NOT NULL, HL_TABLE varchar(128), HL_PARTITION varchar(767), HL_LOCK_STATE char(1) NOT NULL, HL_LOCK_TYPE char(1) NOT NULL, HL_LAST_HEARTBEAT bigint NOT NULL, HL_ACQUIRED_AT bigint, HL_USER varchar(128) NOT NULL, HL_HOST varchar(128) NOT NULL, HL_HEARTBEAT_COUNT integer, HL_AGENT_INFO varchar(128), HL_BLOCKEDBY_EXT_ID bigint, HL_BLOCKEDBY_INT_ID bigint, PRIMARY KEY(HL_LOCK_EXT_ID, HL_LOCK_INT_ID))
CREATE TABLE NEXT_LOCK_ID (NL_NEXT bigint NOT NULL)
INSERT INTO NEXT_LOCK_ID VALUES(1)
SQL
    echo "}"
}

stop() {
    local dir pid; dir=$(cd "$1" 2>/dev/null && pwd) || return 0
    alive "$dir" || return 0
    pid=$(cat "$dir/hive.pid"); kill "$pid"
    for _ in $(seq $((${STOP_SECONDS:-30} * 10))); do kill -0 "$pid" 2>/dev/null || { rm -f "$dir/hive.pid"; return 0; }; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true; rm -f "$dir/hive.pid"
}

case ${1:-} in
    install) install ;;
    start) shift; start "$@" ;;
    stop) stop "$2" ;;
    *) sed -n '2,10p' "$0"; exit 2 ;;
esac
