#!/usr/bin/env bash
# Install the engines for `make container-test` from Debian packages on a bare Debian 12, as root: Docker, Podman,
# Apptainer and Slurm. No service is started. Debian 12 has no Apptainer: it comes from Debian's development suite and is
# unpacked into /opt/apptainer together with its C library, separate from the system's files.
set -euo pipefail

PREFIX=${1:-/opt/apptainer}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

packages() {
    # No service is started: the tests start daemons in temporary folders.
    local no_start=/usr/sbin/policy-rc.d ours=
    if [[ ! -e $no_start ]]; then
        printf '#!/bin/sh\nexit 101\n' >"$no_start"
        chmod 755 "$no_start"
        ours=yes
    fi
    apt-get update --quiet=2
    DEBIAN_FRONTEND=noninteractive apt-get --option DPkg::Lock::Timeout=300 install --quiet=2 --yes \
        --no-install-recommends docker.io podman buildah slirp4netns fuse-overlayfs uidmap mmdebstrap \
        slurm-wlm munge patchelf squashfs-tools squashfuse fuse3 >/dev/null
    if [[ $ours ]]; then rm "$no_start"; fi
}

# Run apt-get with separate lists and cache, for the development suite of this machine's mirror.
development_apt() {
    apt-get --option "Dir::Etc::SourceList=$scratch/sources.list" --option "Dir::Etc::SourceParts=$scratch/none" \
        --option "Dir::State::Lists=$scratch/lists" --option "Dir::Cache=$scratch/cache" \
        --option APT::Sandbox::User=root --quiet=2 "$@"
}

apptainer() {
    local mirror program
    # shellcheck disable=SC2016 # apt expands the dollar signs
    mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "bookworm" { print $2; exit }')
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$scratch/sources.list"
    mkdir -p "$scratch"/{none,lists/partial,cache/archives/partial,packages,libc}
    development_apt update
    (cd "$scratch/packages" && development_apt download apptainer libc6)
    rm -rf "$PREFIX"
    mkdir -p "$PREFIX/libc"
    dpkg-deb --extract "$scratch"/packages/apptainer_*.deb "$PREFIX"
    dpkg-deb --extract "$scratch"/packages/libc6_*.deb "$scratch/libc"
    find "$scratch/libc" \( -name 'ld-linux-*' -o -name 'libc.so.6' -o -name 'libm.so.6' -o -name 'libresolv.so.2' \
        -o -name 'libnss_*.so.2' \) -exec cp --dereference {} "$PREFIX/libc/" \;
    for program in "$PREFIX/usr/bin/apptainer" "$PREFIX"/usr/lib/*/apptainer/bin/starter; do
        patchelf --set-interpreter "$(echo "$PREFIX"/libc/ld-linux-*)" --force-rpath --set-rpath "$PREFIX/libc" "$program"
    done
    # Apptainer finds its settings relative to its programs; its starter is one folder deeper.
    mv "$PREFIX/etc" "$PREFIX/usr/etc"
    ln -s ../etc "$PREFIX/usr/lib/etc"
    mkdir -p "$PREFIX/usr/var/lib/apptainer/mnt/session" "$PREFIX/usr/lib/var/lib/apptainer/mnt/session"
    # Containers of root get no capabilities, because the machine itself may lack them (a container, a small VM).
    sed -i 's/^root default capabilities = .*/root default capabilities = no/' "$PREFIX/usr/etc/apptainer/apptainer.conf"
    ln -sf "$PREFIX/usr/bin/apptainer" /usr/local/bin/apptainer
    # Any user may mount a SIF through FUSE.
    if [[ -e /dev/fuse ]]; then chmod 666 /dev/fuse; fi
    # Root builds in a user namespace like other users, which needs a range of subordinate user IDs.
    for file in /etc/subuid /etc/subgid; do
        grep -q '^root:' "$file" 2>/dev/null || echo root:300000:65536 >>"$file"
    done
}

packages
apptainer
dockerd --version
podman --version
command apptainer --version
