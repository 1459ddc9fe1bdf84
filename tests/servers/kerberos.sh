#!/usr/bin/env bash
# A real KDC of MIT Kerberos for tests: Debian's packages, unpacked into a folder of their own, which needs no root.
#
#   kerberos.sh install                        download and unpack (0.6 MB); once
#   kerberos.sh start  DATADIR PORT            make the realm PENSTOCK.TEST, return when the KDC answers
#   kerberos.sh keytab DATADIR PRINCIPAL FILE  add a principal with a random key, whose keytab is FILE
#   kerberos.sh login  DATADIR PRINCIPAL FILE CACHE [LIFETIME]   put a ticket by the keytab FILE into the file CACHE
#   kerberos.sh stop   DATADIR                 end it at once
#
# Clients set KRB5_CONFIG=DATADIR/krb5.conf and KRB5CCNAME=FILE:CACHE.
set -euo pipefail
. "$(dirname "$0")/process.sh"
ROOT=${PENSTOCK_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock-servers}/kerberos
export LD_LIBRARY_PATH=$ROOT/usr/lib/x86_64-linux-gnu
PACKAGES="krb5-kdc krb5-admin-server krb5-user libkadm5srv-mit12 libkadm5clnt-mit12 libkdb5-10 libgssrpc4 libverto1 libverto-libev1 libev4"

install() {
    [ -x "$ROOT/usr/sbin/krb5kdc" ] && return 0
    local tmp=$ROOT.tmp.$$; rm -rf "$tmp"; mkdir -p "$tmp/debs" "$tmp/root"
    # shellcheck disable=SC2086
    if ! (cd "$tmp/debs" && apt-get -qq download $PACKAGES >/dev/null 2>&1); then
        apt-get -qq update; (cd "$tmp/debs" && apt-get -qq download $PACKAGES >/dev/null)
    fi
    local deb; for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
    rm -rf "$ROOT"; mv "$tmp/root" "$ROOT"; rm -rf "$tmp"
}

in_realm() { KRB5_CONFIG=$1/krb5.conf KRB5_KDC_PROFILE=$1/kdc.conf "$ROOT/usr/$2" "${@:3}"; }

start() {
    local dir port=$2; mkdir -p "$1"; dir=$(cd "$1" && pwd)
    install
    cat >"$dir/krb5.conf" <<INI
[libdefaults]
default_realm = PENSTOCK.TEST
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
[realms]
PENSTOCK.TEST = {
    kdc = 127.0.0.1:$port
}
INI
    cat >"$dir/kdc.conf" <<INI
[realms]
PENSTOCK.TEST = {
    database_name = $dir/principal
    key_stash_file = $dir/stash
    kdc_listen = 127.0.0.1:$port
    kdc_tcp_listen = 127.0.0.1:$port
    database_module = files
}
[dbmodules]
db_module_dir = $LD_LIBRARY_PATH/krb5/plugins/kdb
files = {
    db_library = db2
}
[logging]
kdc = STDERR
INI
    [ -e "$dir/principal" ] || in_realm "$dir" sbin/kdb5_util create -s -P master >"$dir/init.log" 2>&1
    (cd "$dir"; KRB5_CONFIG=$dir/krb5.conf KRB5_KDC_PROFILE=$dir/kdc.conf setsid "$ROOT/usr/sbin/krb5kdc" -n \
        >"$dir/kerberos.log" 2>&1 & echo $! >"$dir/pid")
    answers kerberos "$dir" "$(cat "$dir/pid")" 60 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"
}

keytab() { in_realm "$1" sbin/kadmin.local -q "addprinc -randkey $2" >/dev/null; in_realm "$1" sbin/kadmin.local -q "ktadd -k $3 $2" >/dev/null; }
login() { in_realm "$1" bin/kinit -k -t "$3" -c "FILE:$4" -l "${5:-1h}" "$2"; }

case ${1:-} in
    install) install ;;
    start) start "$2" "$3" ;;
    keytab) keytab "$2" "$3" "$4" ;;
    login) login "${@:2}" ;;
    stop) stop "$2" 0 ;;
    *) sed -n '2,11p' "$0"; exit 2 ;;
esac
