#!/usr/bin/env bash
# A Docker engine for this machine, and a base image for executors where no registry can be reached.
#   engine.sh [start]   installs docker.io if it is missing (as root, with apt-get), starts dockerd by hand if no engine
#                       answers, and makes the image sparkpace-base:bookworm if the public base cannot be pulled
#   engine.sh stop      ends the dockerd that `start` began, no other
# Settings: SPARKPACE_ENGINE_DIR (pid, lock and log file), SPARKPACE_BASE_IMAGE (a base
# of your own, pulled instead of the public one), SPARKPACE_DEBIAN_MIRROR (for debootstrap). Exit 69: there is no engine, and why.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" = 0 ]; then state=/run/sparkpace-engine; else state=${TMPDIR:-/tmp}/sparkpace-engine-$(id -u); fi
state=${SPARKPACE_ENGINE_DIR:-$state}
mirror=${SPARKPACE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
local_base=sparkpace-base:bookworm
start_wait_s=60
stop_wait_s=60
pull_wait_s=180

say() { echo "engine: $*" >&2; }
fail() { say "$*"; exit 69; }

answers() { command -v docker >/dev/null && timeout 20 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

install_packages() { # package...
    command -v apt-get >/dev/null || fail "missing: $*; there is no apt-get here, so install them with this system's own tool."
    [ "$(id -u)" = 0 ] || fail "missing: $*; run: sudo apt-get install -y $*"
    say "installing $* with apt-get"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2
    apt-get install -y -qq --no-install-recommends "$@" >&2
}

# On a machine without an init system nothing mounts control groups; dockerd needs them.
mount_cgroups() {
    [ -e /sys/fs/cgroup/cgroup.controllers ] || [ -d /sys/fs/cgroup/cpu ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup ||
        fail "control groups are not mounted at /sys/fs/cgroup and cannot be; mount them or use --runtime process."
}

# Is the process of our pid file a dockerd? A pid may have been given to another program since.
ours() { [ -s "$state/dockerd.pid" ] && [ "$(cat "/proc/$(cat "$state/dockerd.pid")/comm" 2>/dev/null)" = dockerd ]; }

start_engine() {
    answers && return
    if [ -n "${DOCKER_HOST:-}" ]; then fail "no engine answers at DOCKER_HOST=$DOCKER_HOST; start that one or unset DOCKER_HOST."; fi
    command -v docker >/dev/null && command -v dockerd >/dev/null || install_packages docker.io ca-certificates
    answers && return # the package may have started it
    [ "$(id -u)" = 0 ] || fail "no Docker engine answers and only root can start one; run: sudo $0, or use --runtime process."
    mount_cgroups
    ours || rm -f "$state/dockerd.pid"
    say "starting dockerd (log: $state/dockerd.log)"
    # 9 is our lock, which must not live as long as the daemon does.
    setsid dockerd --pidfile "$state/dockerd.pid" </dev/null >>"$state/dockerd.log" 2>&1 9>&- &
    for _ in $(seq $((start_wait_s * 2))); do
        if answers; then return; fi
        if ! kill -0 $! 2>/dev/null; then break; fi
        sleep 0.5
    done
    tail -n 5 "$state/dockerd.log" >&2 || true
    fail "dockerd did not come up within $start_wait_s s; its last lines are above."
}

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

make_base() {
    local public=${SPARKPACE_BASE_IMAGE:-} why root
    [ -n "$public" ] || public=$(sed -n 's/^ARG BASE_IMAGE=//p' "$here/executor/Dockerfile")
    if has_image "$public" || has_image "$local_base"; then return; fi
    if why=$(timeout "$pull_wait_s" docker pull -q "$public" 2>&1); then return; fi
    [ -z "${SPARKPACE_BASE_IMAGE:-}" ] || fail "SPARKPACE_BASE_IMAGE=$public is not here and cannot be pulled: $why"
    say "$public cannot be pulled (${why##*$'\n'}); making $local_base with debootstrap"
    command -v debootstrap >/dev/null || install_packages debootstrap
    [ "$(id -u)" = 0 ] || fail "debootstrap needs root; run: sudo $0"
    root=$(mktemp -d)
    # shellcheck disable=SC2064  # the path of now is meant
    trap "rm -rf --one-file-system '$root'" EXIT
    debootstrap --variant=minbase bookworm "$root" "$mirror" >"$state/debootstrap.log" 2>&1 ||
        fail "debootstrap from $mirror failed; see $state/debootstrap.log or set SPARKPACE_DEBIAN_MIRROR."
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    tar --numeric-owner -C "$root" -c . | docker import - "$local_base" >/dev/null ||
        fail "the engine did not take $local_base; its words are above."
    say "made $local_base"
}

stop_engine() {
    if ! ours; then return; fi
    local pid
    pid=$(cat "$state/dockerd.pid")
    kill "$pid"
    for _ in $(seq $((stop_wait_s * 2))); do
        if ! kill -0 "$pid" 2>/dev/null; then
            rm -f "$state/dockerd.pid"
            return
        fi
        sleep 0.5
    done
    fail "dockerd ($pid) did not end within $stop_wait_s s; see $state/dockerd.log"
}

# Two starts at once: the second waits and finds the engine of the first.
with_lock() {
    mkdir -p "$state" 2>/dev/null || fail "$state cannot be made; name another place with SPARKPACE_ENGINE_DIR."
    exec 9>"$state/lock"
    flock 9
}

case "${1:-start}" in
    start)
        with_lock
        start_engine
        make_base
        say "Docker engine $(docker version --format '{{.Server.Version}}') answers"
        ;;
    stop)
        stop_engine
        ;;
    *)
        say "'$1' is no command; say 'start' or 'stop'"
        exit 2
        ;;
esac
