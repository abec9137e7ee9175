#!/usr/bin/env bash
# Called by the Makefile for `make image`, `make sif`, `make sbom` and `make container-bench`, with its variables:
#   engine.sh image           build the image accelbench:DEVICE with Docker or Podman
#   engine.sh sif             build containers/build/accelbench-DEVICE.sif, from the image if there is one
#   engine.sh sbom            write the contents of an image or SIF to containers/build/accelbench-DEVICE.cdx.json (CycloneDX)
#   engine.sh bench ARG…      run `make bench ARG…` in an image or SIF; results are in ./runs and owned by the calling user
# This script chooses an engine and sources its file in engines/, which defines `advice` (print how to install the
# engine), `ready` (exit if the engine is unusable), and `image`, `sif`, `sbom` and `bench`.
# If something is missing, the script prints one line and exits with status 2.
set -euo pipefail

DEVICE=${DEVICE:-cpu}
BASE_GIVEN=${BASE:-} # may be empty
BASE=${BASE:-$(sed -n s/^ARG\ BASE=//p containers/Dockerfile)}
IMAGE=accelbench:$DEVICE
SIF=${SIF:-containers/build/accelbench-$DEVICE.sif}
SBOM=containers/build/accelbench-$DEVICE.cdx.json
RUNS=$PWD/runs
DEVICES=(cpu gpu tpu)
CERTIFICATES=${PIP_CERT:-${SSL_CERT_FILE:-}} # for pip during the build; not stored in the image
read -ra FLAGS <<<"${FLAGS:-}" # options for the engine, such as --cpus 2 --memory 4g

die() {
    echo "accelbench: $*" >&2
    exit 2
}

# Succeed if the first argument equals one of the others.
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

# Load an engine's file, or exit with the advice how to install it.
require() {
    load "$1"
    installed "$1" || die "$1 is not installed: $(advice)"
    ready
}

# Require the engine in ENGINE, or else the first installed one of the arguments.
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

# The scratch folder is on the file system of the SIF, which is renamed into place; /tmp is often too small.
make_scratch() {
    mkdir -p containers/build
    SCRATCH=$(mktemp -d -p containers/build)
    trap 'rm -rf "$SCRATCH"' EXIT
}

revision() {
    git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null || true
}

# These values are inserted into a build file, where another line would be executed.
for given in "$DEVICE" "$BASE" "$SIF"; do
    [[ $given != *$'\n'* && $given != -* ]] || die "DEVICE, BASE and SIF must be single lines that do not start with a dash"
done
among "$DEVICE" "${DEVICES[@]}" || die "DEVICE=$DEVICE: choose one of ${DEVICES[*]}"

case ${1:-} in
    image) choose docker podman; make_scratch; image ;;
    # Apptainer builds every SIF, with ENGINE=docker or podman from an image of that engine.
    sif) require apptainer; choose docker podman apptainer; make_scratch; sif ;;
    sbom) choose docker podman apptainer; make_scratch; sbom ;;
    bench)
        choose docker podman apptainer
        mkdir -p "$RUNS" 2>/dev/null && [[ -w $RUNS ]] || die "$(id -un) cannot write the results folder $RUNS"
        bench "${@:2}" ;;
    *) die "usage: engine.sh image|sif|sbom|bench" ;;
esac
