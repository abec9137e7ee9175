#!/usr/bin/env bash
# This script makes a minimal Debian 12 as a tarball, which stands in for the base image where no image registry can be
# reached:
#   containers/ci/base.sh base.tar && docker import base.tar debian:bookworm-slim && make image BASE=debian:bookworm-slim
# It needs mmdebstrap, a minute and 120 MB.
set -euo pipefail

options=()
for folder in doc info lintian locale man; do options+=("--dpkgopt=path-exclude=/usr/share/$folder/*"); done
# shellcheck disable=SC2016 # the dollar sign is mmdebstrap's own
exec mmdebstrap --quiet --variant=minbase "${options[@]}" '--dpkgopt=path-include=/usr/share/doc/*/copyright' \
    --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin' bookworm "${1:?base.sh FILE.tar}"
