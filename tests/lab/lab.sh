#!/usr/bin/env bash
# The lab: two virtual machines with systemd and control groups of version 2, a with Debian 13 and b with Debian 12. Tests of
# Spark start a third one, c, which has the disk of b.
#   lab.sh [up]               builds what is missing, starts what does not run, and prints the lab's folder
#   lab.sh down               ends all of it; the disks and the ssh key stay in the cache
#   lab.sh source [M...]      gives machines (without M: a and b) the project as it is now in this work tree
#   lab.sh on [USER@]M WORDS  runs a command in a machine, as root or that user
#   lab.sh cut M; heal M      takes a machine off the network as its cable does, or back
#   lab.sh off M; start M     powers a machine off as its plug does, or on again with the disk that it has
#   lab.sh start M fresh      powers a machine on with a new disk
# A machine is User Mode Linux (Debian's user-mode-linux): a kernel that is a process. It needs root and no KVM, has one CPU
# and cgroup v2. The machines' network has no way out. Settings: SPARKPACE_LAB (the folder), SPARKPACE_DEBIAN_MIRROR, PYTHON.
. "$(dirname "$0")/settings.sh"
# Memory in MiB: Spark runs on b and c.
memory_of() { case $1 in a) echo 1536 ;; *) echo 3584 ;; esac; }
boot_s=240
end_s=30

in_space() { ip netns exec "$space" "$@"; }

on() { # [user@]machine word...
    local user=root machine=$1
    shift
    case $machine in *@*) user=${machine%@*} machine=${machine#*@} ;; esac
    in_space ssh -i "$lab/id" -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
        -o ConnectTimeout=30 -o ServerAliveInterval=5 -o ServerAliveCountMax=12 "$user@$(address_of "$machine")" "$@"
}

# The process of a machine that runs; nothing without one. Another process may have its number by now.
process_of() {
    local pid
    pid=$(cat "$lab/$1.pid" 2>/dev/null) || return 0
    if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep "umid=lab-$1 " >/dev/null; then echo "$pid"; fi
}

network_up() {
    if ip netns list | grep -w "^$space" >/dev/null; then return; fi
    ip netns add "$space"
    in_space ip link set lo up
    in_space ip link add lab0 type bridge
    in_space ip address add 10.77.0.1/24 dev lab0
    in_space ip link set lab0 up
    for machine in $machines; do
        in_space ip tuntap add "tap-$machine" mode tap
        in_space ip link set "tap-$machine" master lab0 up
    done
}

preloaded() {
    if ! has_amx; then return; fi
    quietly gcc -O2 -shared -fPIC -o "$lab/xstate.$BASHPID" "$here/xstate.c"
    mv "$lab/xstate.$BASHPID" "$lab/xstate.so"
    echo "$lab/xstate.so"
}

# A machine's processes are the only ones in a namespace of their own: if the first of them dies, the kernel ends all, also
# those that outlive User Mode Linux's own kernel and would keep the cable.
start() { # machine [fresh]
    local machine=$1 release preload began=$SECONDS
    release=$(release_of "$machine") preload=$(preloaded)
    [ -z "$(process_of "$machine")" ] || return 0
    [ "${2:-}" != fresh ] || rm -f "$lab/$machine.changes"
    rm -rf "$lab/lab-$machine"
    # Its memory is a sparse file in TMPDIR, which must allow execution.
    TMPDIR=/dev/shm ip netns exec "$space" setsid unshare --pid --fork --kill-child --mount-proc \
        sh -c '"$@" & wait' machine env LD_PRELOAD="$preload" linux.uml "umid=lab-$machine" "uml_dir=$lab" \
        "mem=$(memory_of "$machine")M" \
        "ubd0=$lab/$machine.changes,$lab/$release.disk" root=/dev/ubda rw "systemd.hostname=lab-$machine" \
        "vec0:transport=tap,ifname=tap-$machine,depth=64,gro=1,mac=$(mac_of "$machine")" \
        con=null con0=null,fd:1 con1=null ssl=null \
        </dev/null >"$lab/$machine.console" 2>&1 8>&- 9>&- &
    echo $! >"$lab/$machine.pid"
    until on "$machine" true 2>/dev/null; do
        [ -n "$(process_of "$machine")" ] || { tail -n 5 "$lab/$machine.console" >&2; fail "machine $machine has ended"; }
        [ $((SECONDS - began)) -lt $boot_s ] || fail "machine $machine does not answer; see $lab/$machine.console"
        sleep 0.5
    done
    say "machine $machine (Debian $release) answers after $((SECONDS - began)) s"
}

off() { # machine
    local pid began=$SECONDS
    pid=$(process_of "$1")
    [ -z "$pid" ] || kill -KILL "$pid"
    # The cable has no carrier once the last of its processes has gone.
    while in_space ip link show "tap-$1" 2>/dev/null | grep LOWER_UP >/dev/null; do
        [ $((SECONDS - began)) -lt $end_s ] || fail "machine $1 has not ended within $end_s s; process $pid is left"
        sleep 0.1
    done
    rm -rf "$lab/$1.pid" "$lab/lab-$1"
}

source_to() { # machine
    local jars=()
    cd "$project"
    [ ! -d controller/jars ] || jars=(controller/jars)
    { git ls-files -z --cached --others --exclude-standard -- . ':!docs' ':!tests/data'
        [ ${#jars[@]} = 0 ] || find "${jars[@]}" -name '*.jar' -print0; } |
        tar --null --files-from=- --ignore-failed-read --warning=no-failed-read -cz |
        on "$1" 'rm -rf /opt/sparkpace && mkdir /opt/sparkpace && tar -xz --no-same-owner -C /opt/sparkpace &&
            /opt/venv/bin/python /opt/sparkpace/tests/lab/inside/prepare.py'
}

each() { # function machine...: all at once
    local function=$1 machine pids=()
    shift
    for machine in "$@"; do
        "$function" "$machine" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid"; done
}

up() {
    local builds=()
    need
    for machine in $usual; do
        "$here/build.sh" "$(release_of "$machine")" &
        builds+=($!)
    done
    for pid in "${builds[@]}"; do wait "$pid"; done
    exec 9>"$lab/lock"
    flock 9
    network_up
    each start_fresh $usual
    each source_to $usual
    echo "$lab"
}

start_fresh() { start "$1" fresh; }

down() {
    for machine in $machines; do off "$machine"; done
    if ip netns list | grep -w "^$space" >/dev/null; then ip netns delete "$space"; fi
    for machine in $machines; do rm -f "$lab/$machine.changes" "$lab/$machine.console"; done
    rm -f "$lab/lock" "$lab/xstate.so"
}

case ${1:-up} in
    up) up ;;
    down) down ;;
    source) shift; each source_to ${@:-$usual} ;;
    on) shift; on "$@" ;;
    # Not `ip link set tap-M down`: the machine's network driver does not come back from that.
    cut) in_space ip link set "tap-$2" nomaster ;;
    heal) in_space ip link set "tap-$2" master lab0 ;;
    off) off "$2" ;;
    start) start "$2" "${3:-}" ;;
    *) sed -n '2,10p' "$0" >&2; exit 2 ;;
esac
