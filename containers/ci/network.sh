#!/usr/bin/env bash
# Install the programs for the tests with several ranks from Debian packages, as root: Open MPI's launcher and library,
# NetPIPE over TCP, and the tools that simulate two hosts on one machine (ip, tc, unshare).
set -euo pipefail

apt-get update --quiet=2
DEBIAN_FRONTEND=noninteractive apt-get --option DPkg::Lock::Timeout=300 install --quiet=2 --yes \
    --no-install-recommends openmpi-bin netpipe-tcp iproute2 util-linux >/dev/null
mpirun --version | head -n 1
ip -Version
command -v NPtcp
