#!/usr/bin/env bash
# The Makefile calls this script for `make image`, `make sif`, `make sbom` and `make container-bench`, and hands its variables over:
#   engine.sh image           builds the image accelbench:DEVICE with Docker or Podman
#   engine.sh sif             builds containers/build/accelbench-DEVICE.sif
#   engine.sh sbom            writes containers/build/accelbench-DEVICE.cdx.json: what is in one of them, as CycloneDX
#   engine.sh bench WORD…     runs `make bench WORD…` in one of them; results are in ./runs and belong to the caller
# The script chooses an engine, and the engine's file in engines/ knows the rest: `advice` says how to get the engine,
# `ready` ends the script if it cannot be used, and `image`, `sif`, `sbom` and `bench` do the work.
# If something is missing, the script ends with one line and exit status 2.
set -euo pipefail

DEVICE=${DEVICE:-cpu}
BASE=${BASE:-$(sed -n s/^ARG\ BASE=//p containers/Dockerfile)}
IMAGE=accelbench:$DEVICE
SIF=${SIF:-containers/build/accelbench-$DEVICE.sif}
SBOM=containers/build/accelbench-$DEVICE.cdx.json
RUNS=$PWD/runs
DEVICES=(cpu gpu tpu)
CERTIFICATES=${PIP_CERT:-${SSL_CERT_FILE:-}} # pip needs the host's certificates in the build; they are not kept
read -ra FLAGS <<<"${FLAGS:-}" # the engine gets these options of its own, such as --cpus 2 --memory 4g

die() {
    echo "accelbench: $*" >&2
    exit 2
}

# Tell whether the first word is one of the others.
among() {
    local word
    for word in "${@:2}"; do if [[ $word == "$1" ]]; then return; fi; done
    return 1
}

installed() { command -v "$1" >/dev/null; }

load() {
    # shellcheck source=containers/engines/docker.sh
    . "containers/engines/$1.sh"
}

# Load an engine, or end with the advice of how to get it.
require() {
    load "$1"
    installed "$1" || die "$1 is not installed: $(advice)"
    ready
}

# Require the engine that was asked for, or else the first of these that is installed.
choose() {
    local engine
    for engine in "$@"; do
        if [[ -z ${ENGINE:-} ]] && installed "$engine"; then ENGINE=$engine; fi
    done
    if [[ -z ${ENGINE:-} ]]; then
        load "$1"
        die "none of $* is installed: $(advice)"
    fi
    among "$ENGINE" "$@" || die "ENGINE=$ENGINE: choose one of $*"
    require "$ENGINE"
}

# The scratch folder lies beside the SIF, which is moved out of it: /tmp is often too small.
make_scratch() {
    mkdir -p containers/build
    SCRATCH=$(mktemp -d -p containers/build)
    trap 'rm -rf "$SCRATCH"' EXIT
}

revision() {
    git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null || true
}

# These become part of a file by which an image is built, and a line of their own there would be run.
for given in "$DEVICE" "$BASE" "$SIF"; do
    [[ $given != *$'\n'* && $given != -* ]] || die "DEVICE, BASE and SIF are one line each, and no options"
done
among "$DEVICE" "${DEVICES[@]}" || die "DEVICE=$DEVICE: choose one of ${DEVICES[*]}"

case ${1:-} in
    image) choose docker podman; make_scratch; image ;;
    # Apptainer builds every SIF, also out of an image that Docker or Podman has built.
    sif) require apptainer; choose docker podman apptainer; make_scratch; sif ;;
    sbom) choose docker podman apptainer; make_scratch; sbom ;;
    bench)
        choose docker podman apptainer
        mkdir -p "$RUNS" 2>/dev/null && [[ -w $RUNS ]] || die "$RUNS cannot be written by $(id -un): results belong there"
        bench "${@:2}" ;;
    *) die "engine.sh does one of image, sif, sbom and bench" ;;
esac
