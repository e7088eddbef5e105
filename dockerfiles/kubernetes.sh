#!/usr/bin/env bash
# A Kubernetes of one node on this machine, for tests. Its images come from a Docker engine (engine.sh).
#   kubernetes.sh [start]     starts what does not run yet, as root, and prints the path of an administrator's kubeconfig
#   kubernetes.sh stop        ends it with all its pods; only its logs and the programs in the cache are left
#   kubernetes.sh load IMAGE  gives the node an image of the Docker engine
#   kubernetes.sh build       only makes the programs that `start` needs (Kubernetes 1.20.2: 4 minutes, once)
# With KUBECONFIG set, `start` starts nothing; it prints KUBECONFIG if that cluster answers.
# Settings: SPARKPACE_K8S_BIN (a folder with a kubelet, kube-apiserver, kube-controller-manager and kube-scheduler of your own,
# and with containerd if they need a newer one than 1.6), SPARKPACE_KUBERNETES_DIR (where its folder is, instead of /run and
# /var/lib), SPARKPACE_DEBIAN_MIRROR, XDG_CACHE_HOME (the programs). Exit 69: there is no cluster, and why.
set -euo pipefail
# The kubelet asks the cloud that it might run in for a registry's password otherwise.
export AWS_EC2_METADATA_DISABLED=true
here=$(cd "$(dirname "$0")" && pwd)
# Pid files, sockets, keys and logs; what is large does not belong in /run. Real paths, because the kernel lists these.
state=$(realpath -m "${SPARKPACE_KUBERNETES_DIR:-/run}")/sparkpace-kubernetes
data=$(realpath -m "${SPARKPACE_KUBERNETES_DIR:-/var/lib}")/sparkpace-kubernetes/data
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sparkpace
mirror=${SPARKPACE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
version=1.20.2
servers=(kubelet kube-apiserver kube-controller-manager kube-scheduler)
bin=$(realpath -m "${SPARKPACE_K8S_BIN:-$cache/kubernetes-$version}")
tools=$cache/kubernetes-tools
# A cluster that was not stopped goes on with the programs that it was started with.
if [ -x "$state/servers/kubelet" ] && [ -x "$state/tools/usr/bin/containerd" ]; then
    bin=$(realpath "$state/servers")
    tools=$(realpath "$state/tools")
fi
# The programs are found by links, so that `stop` and `load` take those of `start` whatever their own settings are.
export PATH=$state/servers:$state/tools/usr/bin:$state/tools/usr/sbin:$PATH
node=sparkpace
bridge=sparkpace-kube
# The API server listens at the bridge's address, which is also the first address of services: pods find it though nothing
# routes services here.
address=10.202.0.1
api=https://$address
services=10.202.0.0/28
pods='"subnet": "10.202.0.0/24", "rangeStart": "10.202.0.16"'
etcd=http://127.0.0.1:12379
etcd_peers=http://127.0.0.1:12380
sandbox=sparkpace-sandbox
# Settings that the kubelet and the CNI plugins change, and folders where they write whatever their options say.
sysctls="vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes
    net/ipv4/ip_forward"
folders="/var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers"
start_wait_s=120
stop_wait_s=30

say() { echo "kubernetes: $*" >&2; }
fail() { say "$*"; exit 69; }

# ---------------------------------------------------------------- programs

install_packages() { # package...
    command -v apt-get >/dev/null || fail "missing: $*; there is no apt-get here, so install them with this system's own tool."
    [ "$(id -u)" = 0 ] || fail "missing: $*; run: sudo apt-get install -y $*"
    say "installing $* with apt-get"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2
    apt-get install -y -qq --no-install-recommends "$@" >&2
}

# Installs the package of each command that is missing.
need() { # command=package...
    local missing=() pair
    for pair in "$@"; do
        command -v "${pair%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
}

# apt-get on Debian bookworm, whatever the system is, with its lists and archives in a folder: nothing of the system changes.
bookworm() { # folder word...
    local folder=$1 line="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main"
    shift
    command -v apt-get >/dev/null || fail "there is no apt-get here to fetch Debian's packages with; name a cluster with KUBECONFIG."
    if [ ! -d "$folder/apt" ]; then
        mkdir -p "$folder"/apt/{lists,archives}/partial
        printf 'deb %s\ndeb-src %s\n' "$line" "$line" >"$folder/apt/sources.list"
        bookworm "$folder" update
    fi
    # Without a status file no package counts as installed, so that bookworm's own version is the one to take.
    apt-get -qq -o Dir::Etc::SourceList="$folder/apt/sources.list" -o Dir::Etc::SourceParts=- -o Dir::Etc::Preferences=- \
        -o Dir::Etc::PreferencesParts=- -o Dir::State::Lists="$folder/apt/lists" -o Dir::State::Status=/dev/null \
        -o Dir::Cache="$folder/apt" -o APT::Sandbox::User=root "$@" >"$folder/apt/log" 2>&1 ||
        fail "apt-get $* failed at $mirror ($(tail -n 1 "$folder/apt/log")); SPARKPACE_DEBIAN_MIRROR names another mirror."
}

# Unpacks packages of bookworm without installing them: etcd's would start a service of its own.
unpack() { # folder into package...
    local folder=$1 into=$2 deb
    shift 2
    (cd "$folder" && bookworm "$folder" download "$@")
    for deb in "$folder"/*.deb; do
        dpkg-deb -x "$deb" "$into"
        rm "$deb"
    done
}

# A folder of the cache is there as a whole or not at all: it is made next to its place and renamed. A second call waits.
make_folder() { # path function
    [ ! -d "$1" ] || return 0
    mkdir -p "$cache"
    exec 8>"$cache/kubernetes.lock"
    flock 8
    if [ ! -d "$1" ]; then
        work=$(mktemp -d "$cache/making.XXXXXX")
        # shellcheck disable=SC2064  # the path of now is meant
        trap "rm -rf '$work'" EXIT
        mkdir "$work/made"
        "$2" "$work" "$work/made"
        chmod 755 "$work/made"
        mv "$work/made" "$1"
        rm -rf "$work"
    fi
    exec 8>&-
}

make_tools() { # work into
    say "fetching etcd, containerd and CNI plugins of Debian bookworm"
    unpack "$1" "$2" etcd-server containerd runc containernetworking-plugins
}

# Debian's source package has neither a build that leaves out the rest nor the one file that is generated.
make_servers() { # work into
    local root=$1/root source=$1/go/src/k8s.io/kubernetes flags="-s -w" name apis
    need dpkg-source=dpkg-dev
    say "building Kubernetes $version from Debian's source (about 4 minutes, once)"
    unpack "$1" "$root" golang-1.19-go golang-1.19-src
    (cd "$1" && bookworm "$1" source kubernetes)
    mkdir -p "${source%/*}"
    mv "$1"/kubernetes-*/ "$source"
    for name in component-base/version client-go/pkg/version; do
        name=k8s.io/kubernetes/vendor/k8s.io/$name
        flags+=" -X $name.gitVersion=v$version -X $name.gitMajor=1 -X $name.gitMinor=20"
    done
    (
        cd "$source"
        export GOROOT=$root/usr/lib/go-1.19 GOPATH=$1/go GOCACHE=$1/cache GO111MODULE=off GOFLAGS=-trimpath CGO_ENABLED=0
        export GOPROXY=off PATH=$GOROOT/bin:$PATH
        # Packages that ask for it, by the names they have below vendor/, where the staged ones are links.
        apis=$(grep -rl --include='*.go' --exclude='*_test.go' --exclude-dir=testdata '^// *+k8s:openapi-gen=true' cmd pkg staging |
            xargs -n1 dirname | sort -u | sed 's#^staging/src#vendor#; s#^#k8s.io/kubernetes/#' | paste -sd,)
        go run ./vendor/k8s.io/kube-openapi/cmd/openapi-gen --go-header-file hack/boilerplate/boilerplate.generatego.txt \
            --output-file-base zz_generated.openapi --output-package k8s.io/kubernetes/pkg/generated/openapi \
            --output-base "$1/go/src" --report-filename "$1/report" --input-dirs "$apis" &&
            go build -o "$2/" -ldflags "$flags" "${servers[@]/#/./cmd/}"
    ) >"$1/log" 2>&1 || { tail -n 20 "$1/log" >&2; fail "Kubernetes could not be built; the last words are above."; }
}

make_programs() {
    local name
    make_folder "$tools" make_tools
    if [ -z "${SPARKPACE_K8S_BIN:-}" ]; then make_folder "$bin" make_servers; fi
    for name in "${servers[@]}"; do
        [ -x "$bin/$name" ] || fail "there is no $name in $bin"
    done
}

# ---------------------------------------------------------------- daemons

# Is the process of a daemon's pid file that daemon? A pid may have been given to another program since; a dead process
# that is not yet reaped has no program.
alive() { # program
    [ -s "$state/$1.pid" ] && [[ $(readlink "/proc/$(cat "$state/$1.pid")/exe") = */"$1"* ]]
}

daemon() { # program argument...
    if alive "$1"; then return; fi
    say "starting $1 (log: $state/$1.log)"
    # 9 is our lock, which must not live as long as the daemon does.
    setsid "$@" </dev/null >>"$state/$1.log" 2>&1 9>&- &
    echo $! >"$state/$1.pid"
    disown
}

# Waits until the words, which need this daemon, succeed.
await() { # program word...
    local program=$1
    shift
    for _ in $(seq $((start_wait_s * 2))); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.5
        kill -0 "$(cat "$state/$program.pid")" 2>/dev/null || break
    done
    tail -n 5 "$state/$program.log" >&2 || true
    fail "$program was not ready within $start_wait_s s; its last lines are above."
}

kube() { kubectl --kubeconfig "$state/admin.kubeconfig" --cache-dir "$state/kubectl" --request-timeout 20s "$@"; }
ctr() { command ctr -a "$state/containerd.sock" -n k8s.io "$@"; }
is_ready() { kube get node "$node" | grep -q ' Ready '; }

# One key and certificate serve the API server, its calls of the kubelet and the tokens of service accounts; all others
# have a token.
make_identities() (
    [ ! -e "$state/tokens" ] || return 0
    umask 077
    openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/O=system:masters/CN=sparkpace" -keyout "$state/key" \
        -out "$state/certificate" -addext "subjectAltName=IP:$address" -addext extendedKeyUsage=serverAuth,clientAuth 2>/dev/null
    user admin admin system:masters
    user kubelet "system:node:$node" system:nodes
    user kube-controller-manager system:kube-controller-manager
    user kube-scheduler system:kube-scheduler
    mv "$state/tokens.new" "$state/tokens"
)

user() { # name user [group]
    local token
    token=$(openssl rand -hex 16)
    echo "$token,$2,$1${3:+,$3}" >>"$state/tokens.new"
    cat >"$state/$1.kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: sparkpace, cluster: {server: "$api", certificate-authority: $state/certificate}}]
users: [{name: $1, user: {token: $token}}]
contexts: [{name: sparkpace, context: {cluster: sparkpace, user: $1}}]
current-context: sparkpace
END
}

# Words that only Kubernetes 1.N and later know, or only earlier ones.
from() { if [ "$minor" -ge "$1" ]; then echo "${*:2}"; fi; }     # N word...
before() { if [ "$minor" -lt "$1" ]; then echo "${*:2}"; fi; }   # N word...

write_settings() {
    mkdir -p "$state/cni"
    cat >"$state/cni/bridge.conflist" <<END
{"cniVersion": "0.4.0", "name": "sparkpace", "plugins": [{"type": "bridge", "bridge": "$bridge", "isGateway": true, "ipam": {
    "type": "host-local", "ranges": [[{$pods}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "$state/addresses"}}]}
END
    # Without CAP_SYS_RESOURCE, as in many containers, runc cannot lower a score. The plugins left out write to /opt and /run.
    cat >"$state/containerd.toml" <<END
version = 2
root = "$data/containerd"
state = "$state/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
address = "$state/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/library/$sandbox:latest"
netns_mounts_under_state_dir = true
disable_apparmor = true
restrict_oom_score_adj = true
disable_hugetlb_controller = true
tolerate_missing_hugetlb_controller = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
options = {Root = "$state/runc"}
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "$state/tools/usr/lib/cni"
conf_dir = "$state/cni"
END
    # Nothing is evicted and no image removed: the disk is not the cluster's own.
    cat >"$state/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $address
healthzPort: 0
authentication: {anonymous: {enabled: false}, x509: {clientCAFile: $state/certificate}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
failSwapOn: false
makeIPTablesUtilChains: false
resolvConf: ""
volumePluginDir: $state/plugins
evictionHard: {memory.available: "50Mi", nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
$(before 25 'featureGates: {LocalStorageCapacityIsolation: false}')
$(from 25 'localStorageCapacityIsolation: false')
$(from 27 "containerRuntimeEndpoint: unix://$state/containerd.sock")
$(from 30 "podLogsDir: $state/pods")
$(from 31 'failCgroupV1: false')
END
}

record_machine() {
    [ ! -e "$state/before" ] || return 0
    [ -z "$(find /sys/fs/cgroup -maxdepth 2 -name 'kubepods*')" ] || fail "another kubelet runs here; name its cluster with KUBECONFIG."
    rm -rf --one-file-system "$data" "$state"/*.log # of before a reboot
    local name
    {
        for name in $sysctls; do echo "sysctl $name $(cat "/proc/sys/$name")"; done
        for name in $folders; do [ -e "$name" ] || echo "folder $name"; done
    } >"$state/before.new"
    mv "$state/before.new" "$state/before"
}

start_network() {
    ip link show "$bridge" >/dev/null 2>&1 || ip link add "$bridge" type bridge
    ip addr replace "$address/24" dev "$bridge"
    ip link set "$bridge" up
    # A Docker engine forwards nothing between pods otherwise.
    iptables -C FORWARD -i "$bridge" -o "$bridge" -j ACCEPT 2>/dev/null || iptables -I FORWARD -i "$bridge" -o "$bridge" -j ACCEPT
}

start_containerd() {
    daemon containerd --config "$state/containerd.toml"
    await containerd ctr version
}

start_cluster() {
    local minor
    ln -sfn "$bin" "$state/servers"
    ln -sfn "$tools" "$state/tools"
    minor=$(kubelet --version | sed -n 's/.* v1\.\([0-9]*\).*/\1/p')
    record_machine
    mkdir -p "$data"
    make_identities
    write_settings
    start_network
    daemon etcd --data-dir "$data/etcd" --listen-client-urls "$etcd" --advertise-client-urls "$etcd" --listen-peer-urls "$etcd_peers" \
        --initial-advertise-peer-urls "$etcd_peers" --initial-cluster "default=$etcd_peers" --unsafe-no-fsync --log-level warn
    daemon kube-apiserver --etcd-servers "$etcd" --bind-address "$address" --secure-port 443 --endpoint-reconciler-type none \
        --tls-cert-file "$state/certificate" --tls-private-key-file "$state/key" --client-ca-file "$state/certificate" \
        --token-auth-file "$state/tokens" --service-account-issuer "$api" --service-account-key-file "$state/key" \
        --service-account-signing-key-file "$state/key" --kubelet-client-certificate "$state/certificate" \
        --kubelet-client-key "$state/key" --kubelet-preferred-address-types InternalIP --authorization-mode Node,RBAC \
        --enable-admission-plugins NodeRestriction --service-cluster-ip-range "$services" --allow-privileged
    start_containerd
    make_sandbox
    await kube-apiserver kube get --raw /readyz
    # shellcheck disable=SC2046  # some versions take one word more, others none
    daemon kube-controller-manager --kubeconfig "$state/kube-controller-manager.kubeconfig" --secure-port 0 --leader-elect=false \
        --use-service-account-credentials --service-account-private-key-file "$state/key" --root-ca-file "$state/certificate" \
        --flex-volume-plugin-dir "$state/plugins" $(before 24 --port 0)
    # shellcheck disable=SC2046
    daemon kube-scheduler --kubeconfig "$state/kube-scheduler.kubeconfig" --secure-port 0 --leader-elect=false $(before 24 --port 0)
    # shellcheck disable=SC2046
    daemon kubelet --config "$state/kubelet.yaml" --kubeconfig "$state/kubelet.kubeconfig" --root-dir "$data/kubelet" \
        --cert-dir "$data/kubelet/pki" --hostname-override "$node" --node-ip "$address" \
        $(before 24 --container-runtime remote) $(before 27 --container-runtime-endpoint "unix://$state/containerd.sock")
    await kubelet is_ready
    await kube-controller-manager kube get serviceaccount default
}

# ---------------------------------------------------------------- images

load_image() { # image
    local id known
    id=$(docker image inspect --format '{{.Id}}' "$1") || fail "the Docker engine has no image $1"
    known=$data/images/${1//\//_}@$id
    [ ! -e "$known" ] || return 0
    say "loading $1"
    docker save "$1" | ctr images import - >"$state/import.log" 2>&1 || { cat "$state/import.log" >&2; fail "$1 could not be loaded."; }
    mkdir -p "${known%/*}"
    touch "$known"
}

# The program that holds a pod's namespaces: any that waits.
make_sandbox() {
    local base
    [ -z "$(ctr images ls -q "name==docker.io/library/$sandbox:latest")" ] || return 0
    for base in ${SPARKPACE_BASE_IMAGE:-} sparkpace-base:bookworm "$(sed -n 's/^ARG BASE_IMAGE=//p' "$here/executor/Dockerfile")"; do
        docker image inspect "$base" >/dev/null 2>&1 || continue
        printf 'FROM %s\nENTRYPOINT ["sleep", "infinity"]\n' "$base" | docker build -q -t "$sandbox" - >"$state/build.log" 2>&1 ||
            { cat "$state/build.log" >&2; fail "$sandbox could not be built."; }
        load_image "$sandbox"
        docker image rm "$sandbox" >/dev/null
        return
    done
    fail "no Docker engine with a base image answers; run: make engine"
}

# ---------------------------------------------------------------- the end

end_daemons() { # program...
    local program
    for program in "$@"; do
        # At once: whatever it would still save is removed.
        if alive "$program"; then kill -KILL "$(cat "$state/$program.pid")"; fi
    done
    for program in "$@"; do
        for _ in $(seq $((stop_wait_s * 2))); do
            alive "$program" || break
            sleep 0.5
        done
        rm -f "$state/$program.pid"
    done
}

# Nothing starts them again by now. A containerd that has died comes back for them: their shims listen only to it.
end_pods() {
    local task
    [ -n "$(ls "$state/containerd/io.containerd.runtime.v2.task/k8s.io" 2>/dev/null)" ] || return 0
    start_containerd
    for _ in $(seq $((stop_wait_s * 2))); do
        [ -n "$(ctr tasks ls -q)" ] || return 0
        for task in $(ctr tasks ls -q); do ctr tasks rm --force "$task" >/dev/null 2>&1 || true; done
        sleep 0.5
    done
    fail "these pods' programs did not end within $stop_wait_s s: $(ctr tasks ls -q)"
}

# A containerd from 2.0 on leaves the shims of pods whose tasks are gone. Their options name its socket.
end_shims() {
    local pid
    for pid in $(grep -lsz "^$state/containerd.sock$" /proc/[0-9]*/cmdline | cut -d/ -f3); do
        if [[ $(readlink "/proc/$pid/exe") = */containerd-shim* ]]; then kill -KILL "$pid" || true; fi
    done
}

# A process that is ending keeps a mount busy for a moment.
unmount() { # directory
    for _ in {1..20}; do
        umount "$1" 2>/dev/null && return
        sleep 0.5
    done
    umount "$1"
}

stop_cluster() {
    local what name value
    end_daemons "${servers[@]}"
    end_pods
    end_daemons containerd etcd
    end_shims
    awk -v data="$data/" -v state="$state/" 'index($2, data) == 1 || index($2, state) == 1 { print $2 }' /proc/mounts | sort -r |
        while read -r name; do unmount "$name"; done
    for name in /sys/fs/cgroup/{,*/}kubepods; do
        [ ! -d "$name" ] || find "$name" -depth -type d -exec rmdir {} +
    done
    iptables -D FORWARD -i "$bridge" -o "$bridge" -j ACCEPT 2>/dev/null || true
    ip link del "$bridge" 2>/dev/null || true
    while read -r what name value; do
        if [ "$what" = sysctl ]; then echo "$value" >"/proc/sys/$name"; else rm -rf --one-file-system "$name"; fi
    done <"$state/before"
    rm -rf --one-file-system "$data"
    rmdir "${data%/*}" 2>/dev/null || true
    find "$state" -mindepth 1 -maxdepth 1 ! -name '*.log' ! -name lock -exec rm -rf --one-file-system {} +
}

# Two calls at once: the second waits for the first.
with_lock() {
    [ "$(id -u)" = 0 ] || fail "only root can have a cluster here; run: sudo $0, or name a cluster with KUBECONFIG."
    mkdir -p "$state" 2>/dev/null || fail "$state cannot be made; name another place with SPARKPACE_KUBERNETES_DIR."
    exec 9>"$state/lock"
    flock 9
}

case "${1:-start}" in
    start)
        if [ -n "${KUBECONFIG:-}" ]; then
            kubectl --request-timeout 20s get --raw /readyz >/dev/null || fail "no cluster answers at KUBECONFIG=$KUBECONFIG"
            echo "$KUBECONFIG"
            exit
        fi
        with_lock
        need ip=iproute2 iptables=iptables openssl=openssl kubectl=kubernetes-client
        make_programs
        start_cluster
        say "$(kubelet --version) answers"
        echo "$state/admin.kubeconfig"
        ;;
    stop)
        [ -e "$state/before" ] || exit 0
        with_lock
        stop_cluster
        ;;
    load)
        alive containerd || fail "no cluster of \`$0 start\` runs here, and to no other can an image be given"
        with_lock
        load_image "${2:?name an image}"
        ;;
    build)
        make_programs
        ;;
    *)
        say "'$1' is no command; say 'start', 'stop', 'load' or 'build'"
        exit 2
        ;;
esac
