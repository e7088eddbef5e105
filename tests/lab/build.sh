#!/usr/bin/env bash
# Builds the disk of a Debian release (trixie or bookworm) for the lab, unless it is there as this script would make it:
# Debian with systemd and ssh, and an environment for the project and its tests in /opt/venv; in bookworm also a Java and a
# Spark. The project itself comes at the start of a machine. A build takes 2 to 5 minutes, needs Debian's mirror and PyPI, and
# uses about 2 GB of the cache for each release; the disk that it leaves there has 0.5 GB, and with Spark 1.2 GB.
. "$(dirname "$0")/settings.sh"
release=${1:-}
case $release in
    trixie) version=3.13 java= ;;
    bookworm) version=3.11 java=openjdk-17-jre-headless ;;
    *) echo "build.sh trixie|bookworm" >&2; exit 2 ;;
esac
need
packages=systemd-sysv,dbus,dbus-user-session,libpam-systemd,kmod,procps,iproute2,openssh-server,python3,python3-venv,tzdata
packages+=${java:+,$java}
mirror=${SPARKPACE_DEBIAN_MIRROR:-http://deb.debian.org/debian}

# What the project and its tests that need no Spark import.
requirements() {
    "$python" - "$project/pyproject.toml" <<'END'
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text())["project"]
extras = project["optional-dependencies"]
tests = [line for line in extras["dev"] if line.startswith(("pytest", "hypothesis"))]
print("\n".join([*project["dependencies"], *extras["kubernetes"], *tests]))
END
}

mkdir -p "$lab"
exec 8>"$lab/$release.lock"
flock 8
requirements=$(requirements)
# The Spark of the project's own environment, where Debian has a Java that it takes.
spark=${java:+pyspark==$(sed -n 's/^PYSPARK=//p' "$project/.ci/setup")}
made_from=$({ cat "$0" "$here/settings.sh"; echo "$requirements" "$spark"; } | sha256sum)
if [ -e "$lab/$release.disk" ] && [ "$(cat "$lab/$release.made-from" 2>/dev/null)" = "$made_from" ]; then exit; fi
say "building the disk of Debian $release in $lab (2 to 5 minutes)"
rm -f "$lab/$release.made-from"

# 1. The packages. A root that is complete stays until the disk is made, so that a later step can be tried again.
root=$lab/$release.root
if [ "$(cat "$root/.packages" 2>/dev/null)" != "$packages" ]; then
    rm -rf "$root"
    quietly mmdebstrap --variant=minbase --include="$packages" "$release" "$root" "$mirror"
    echo "$packages" >"$root/.packages"
fi

# 2. The environment: wheels that this machine's pip fetches, because the new root has no network of its own.
wheels=$root/wheels
mkdir -p "$wheels"
echo "$requirements" >"$wheels/requirements.txt"
quietly "$python" -m pip download -q --disable-pip-version-check -d "$wheels" --python-version "$version" --only-binary=:all: \
    -r "$wheels/requirements.txt"
rm -rf "$root/opt/venv"
quietly chroot "$root" python3 -m venv /opt/venv
quietly chroot "$root" /opt/venv/bin/pip install -q --disable-pip-version-check --no-index --find-links /wheels \
    -r /wheels/requirements.txt
rm -rf "$root/opt/pyspark"
if [ -n "$spark" ]; then
    # PyPI has only its source. It is not in the environment, where `sparkpace up` would find it without a Java.
    quietly "$python" -m pip wheel -q --disable-pip-version-check -w "$wheels" "$spark"
    quietly chroot "$root" /opt/venv/bin/pip install -q --disable-pip-version-check --no-index --find-links /wheels \
        --target /opt/pyspark "$spark"
fi
rm -rf "$wheels"

# 3. What makes it a machine: an address by its name, ssh for root and for an ordinary user, and a log that outlives it.
[ -e "$lab/id" ] || ssh-keygen -q -t ed25519 -N '' -f "$lab/id"
install -D -m 600 "$lab/id.pub" "$root/root/.ssh/authorized_keys"
chroot "$root" id ann >/dev/null 2>&1 || chroot "$root" useradd -m -s /bin/bash -u 1000 ann
install -D -m 600 -o 1000 -g 1000 "$lab/id.pub" "$root/home/ann/.ssh/authorized_keys"
chown -R 1000:1000 "$root/home/ann"
printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
for machine in $machines; do
    printf '%s lab-%s\n' "$(address_of "$machine")" "$machine" >>"$root/etc/hosts"
done
# The kernel of a machine says its name and has its cable; its address follows from the name. networkd would need udev.
cat >"$root/etc/systemd/system/lab-network.service" <<'END'
[Unit]
Description=Address of this machine of the lab
Before=network.target ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=sh -c 'ip link set vec0 up && ip address add "$$(getent hosts "$$(hostname)" | cut -d " " -f 1)/24" dev vec0'
[Install]
WantedBy=multi-user.target
END
# The command line of the kernel says the name and the disk; a line of fstab that names another one ends the boot.
rm -f "$root/etc/hostname" "$root/etc/fstab"
tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
mkdir -p "$root/var/log/journal"
uml=$(ls /usr/lib/uml/modules | tail -n 1)
mkdir -p "$root/lib/modules"
rm -rf "$root/lib/modules/$uml"
cp -r "/usr/lib/uml/modules/$uml" "$root/lib/modules/"
chroot "$root" depmod "$uml"
quietly chroot "$root" systemctl -q enable lab-network ssh
quietly chroot "$root" systemctl -q mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
    e2scrub_all.timer fstrim.timer

# 4. The disk: a sparse file. Machines write to files of their own on top of it.
rm -f "$lab/$release.disk"
quietly mke2fs -q -t ext4 -O ^has_journal -d "$root" "$lab/$release.new" 6G
mv "$lab/$release.new" "$lab/$release.disk"
echo "$made_from" >"$lab/$release.made-from"
rm -rf "$root"
