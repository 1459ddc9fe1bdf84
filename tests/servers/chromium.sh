#!/usr/bin/env bash
# A real browser for the status page, from the Debian or Ubuntu archive this machine uses.
#
#   chromium.sh install     once; needs root, says so where it has not
set -euo pipefail
[ "${1:-}" = install ] || { echo "chromium.sh install" >&2; exit 2; }
command -v chromium >/dev/null && exit 0
[ "$(id -u)" = 0 ] || { echo "chromium is not there, and only root may install it: apt-get install chromium" >&2; exit 1; }
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends chromium >/dev/null
