#!/usr/bin/env bash
# Install what `make container-test` runs, from Debian's packages alone: Docker, Podman, Apptainer and Slurm, on a bare
# Debian 12 as root. Nothing is started. Apptainer is not in Debian 12: it comes from the development suite, unpacked
# into /opt/apptainer together with the C library that it is linked to, and touches nothing of the system.
set -euo pipefail

PREFIX=${1:-/opt/apptainer}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

packages() {
    # No service starts: the tests start their own daemons, with their own folders.
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

# Run apt with lists and a cache of its own, which know the development suite of the mirror that this machine uses.
development_apt() {
    apt-get --option "Dir::Etc::SourceList=$scratch/sources.list" --option "Dir::Etc::SourceParts=$scratch/none" \
        --option "Dir::State::Lists=$scratch/lists" --option "Dir::Cache=$scratch/cache" \
        --option APT::Sandbox::User=root --quiet=2 "$@"
}

apptainer() {
    local mirror program
    # shellcheck disable=SC2016 # the dollar signs are apt's own
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
    # Apptainer looks for its settings relative to where its programs are, its starter from one folder deeper.
    mv "$PREFIX/etc" "$PREFIX/usr/etc"
    ln -s ../etc "$PREFIX/usr/lib/etc"
    mkdir -p "$PREFIX/usr/var/lib/apptainer/mnt/session" "$PREFIX/usr/lib/var/lib/apptainer/mnt/session"
    # Root gets no capabilities that a machine without them (itself a container, a small virtual one) cannot give.
    sed -i 's/^root default capabilities = .*/root default capabilities = no/' "$PREFIX/usr/etc/apptainer/apptainer.conf"
    ln -sf "$PREFIX/usr/bin/apptainer" /usr/local/bin/apptainer
    # A SIF is mounted through FUSE, by any user.
    if [[ -e /dev/fuse ]]; then chmod 666 /dev/fuse; fi
    # Root builds as any user does, in a user namespace: that wants a range of users to map.
    for file in /etc/subuid /etc/subgid; do
        grep -q '^root:' "$file" 2>/dev/null || echo root:300000:65536 >>"$file"
    done
}

packages
apptainer
dockerd --version
podman --version
command apptainer --version
