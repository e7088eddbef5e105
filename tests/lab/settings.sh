# Settings and words that the lab's scripts share; they source this file.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../.." && pwd)
lab=$(realpath -m "${SPARKPACE_LAB:-${XDG_CACHE_HOME:-$HOME/.cache}/sparkpace/lab}")
python=${PYTHON:-$project/.venv/bin/python}
# The network of the lab, which has no way to any other one.
space=sparkpace-lab
# Machines a and b have different Debians; tests of Spark start c, which is another b. The first byte of a MAC address says
# "locally administered".
usual="a b"
machines="$usual c"
release_of() { case $1 in a) echo trixie ;; b | c) echo bookworm ;; *) fail "there is no machine '$1'; name a, b or c" ;; esac; }
address_of() {
    case $1 in a) echo 10.77.0.11 ;; b) echo 10.77.0.12 ;; c) echo 10.77.0.13 ;; *) fail "there is no machine '$1'" ;; esac
}
mac_of() { echo "52:54:00:77:00:$(address_of "$1" | cut -d. -f4)"; }

say() { echo "lab: $*" >&2; }
fail() { say "$*"; exit 69; }

# Runs a talkative command; its words are shown only if it fails.
quietly() {
    local said status=0
    said=$("$@" 2>&1) || status=$?
    [ "$status" = 0 ] || { echo "$said" | tail -n 40 >&2; fail "this failed: $*"; }
}

# Processors with AMX have more registers than User Mode Linux 6.1 knows (xstate.c).
has_amx() { [[ $(</proc/cpuinfo) == *" amx_tile "* ]]; }

# Nothing is installed here: a machine's owner decides that.
need() {
    local missing=() pair
    for pair in linux.uml=user-mode-linux mmdebstrap=mmdebstrap mke2fs=e2fsprogs ip=iproute2 unshare=util-linux \
        ssh=openssh-client git=git; do
        command -v "${pair%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    if has_amx && ! command -v gcc >/dev/null; then missing+=(gcc libc6-dev); fi
    [ ${#missing[@]} = 0 ] ||
        fail "missing: ${missing[*]}; run: apt-get install --no-install-recommends ${missing[*]} (Debian's packages)"
    [ "$(id -u)" = 0 ] || fail "only root may make the lab's network; run this as root"
    [ -c /dev/net/tun ] || fail "there is no /dev/net/tun, with which machines are cabled; load the kernel's module tun"
    [ -x "$python" ] || fail "there is no Python at $python; run \`make setup\`, or name one with PYTHON=..."
}
