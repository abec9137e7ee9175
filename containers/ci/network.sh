#!/usr/bin/env bash
# Install what the tests of several ranks run beside Python, from Debian's packages alone, as root: Open MPI's launcher
# and library, NetPIPE over TCP, and what makes two hosts of one (ip, tc, unshare).
set -euo pipefail

apt-get update --quiet=2
DEBIAN_FRONTEND=noninteractive apt-get --option DPkg::Lock::Timeout=300 install --quiet=2 --yes \
    --no-install-recommends openmpi-bin netpipe-tcp iproute2 util-linux >/dev/null
mpirun --version | head -n 1
ip -Version
command -v NPtcp
