#!/usr/bin/env bash
# Build the image without Docker, as root, and run a command in it: needs buildah and debootstrap (Debian has both) and
# no daemon. Its base is a Debian made on the spot, with Debian's Python, in place of the one the Dockerfile names.
#
#   buildah.sh FOLDER COMMAND ...     for instance  buildah.sh /tmp/image penstock demo
#
# FOLDER holds base, image and container (5 GB) and may be removed afterwards.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,7p' "$0"; exit 2; }
mkdir -p "$1"; folder=$(cd "$1" && pwd); shift
source=$(cd "$(dirname "$0")/.." && pwd)
stored() { local verb=$1; shift; buildah --root "$folder/store" --runroot "$folder/run" --storage-driver vfs "$verb" "$@"; }

if [ ! -e "$folder/image" ]; then
    debootstrap --variant=minbase --include=ca-certificates,python3-pip bookworm "$folder/debian" >"$folder/debootstrap.log"
    rm -f "$folder"/debian/usr/lib/python3*/EXTERNALLY-MANAGED  # an image is nobody else's system
    cp /etc/ssl/certs/ca-certificates.crt "$folder/debian/etc/ssl/certs/"  # this machine's, where a proxy signs anew
    base=$(stored from scratch)
    stored add -q "$base" "$folder/debian" / >/dev/null
    stored commit -q "$base" penstock-base >/dev/null
    stored rm "$base" >/dev/null
    rm -rf "$folder/debian"
    stored bud --isolation chroot --network host \
        --build-arg BASE=localhost/penstock-base -f "$source/docker/Dockerfile" -t penstock "$source"
    touch "$folder/image"
fi
container=$(stored from localhost/penstock)
trap 'stored rm "$container" >/dev/null' EXIT
stored run --isolation chroot --network host "$container" -- "$@"
