#!/usr/bin/env bash
# Create a minimal Debian 12 root file system as a tarball, to replace the base image on machines without access to an
# image registry:
#   containers/ci/base.sh base.tar && docker import base.tar debian:bookworm-slim && make image BASE=debian:bookworm-slim
# Requires mmdebstrap, a minute and 120 MB.
set -euo pipefail

options=()
for folder in doc info lintian locale man; do options+=("--dpkgopt=path-exclude=/usr/share/$folder/*"); done
# shellcheck disable=SC2016 # mmdebstrap expands the dollar sign
exec mmdebstrap --quiet --variant=minbase "${options[@]}" '--dpkgopt=path-include=/usr/share/doc/*/copyright' \
    --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin' bookworm "${1:?usage: base.sh FILE.tar}"
