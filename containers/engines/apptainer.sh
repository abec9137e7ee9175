# shellcheck shell=bash
# Functions for Apptainer, which builds and runs a SIF (a single file) without a daemon or root.

advice() { echo "install a package of apptainer.org, or on a cluster: module load apptainer"; }

ready() { :; }

# Build the SIF from the base image.
sif() {
    local options=(--build-arg bootstrap=docker --build-arg "from=$BASE")
    if [[ -f $BASE ]]; then options=(--build-arg bootstrap=docker-archive --build-arg "from=$BASE"); fi
    if [[ -r $CERTIFICATES ]]; then
        export APPTAINERENV_PIP_CERT=/tmp/ca_bundle
        options+=(--bind "$CERTIFICATES:/tmp/ca_bundle")
    fi
    build_sif '' "${options[@]}"
}

# Build the SIF atomically. Arguments: the source image's ID (may be empty), then options of `apptainer build`.
build_sif() {
    apptainer build --fakeroot --mksquashfs-args '-comp zstd -Xcompression-level 3' \
        --build-arg "device=$DEVICE" --build-arg "revision=$(revision)" "${@:2}" \
        "$SCRATCH/image.sif" containers/accelbench.def || die "apptainer failed to build $SIF (reason above)"
    mv "$SCRATCH/image.sif" "$SIF"
    echo "$SIF: $(($(stat --format %s "$SIF") / 1000000)) MB${1:+, from $1}"
}

sbom() {
    [[ -r $SIF ]] || die "$SIF does not exist: make sif DEVICE=$DEVICE"
    apptainer exec "$SIF" cat /opt/venv/share/sbom.cdx.json >"$SCRATCH/sbom.json" ||
        die "$SIF has no list of its contents: make sif DEVICE=$DEVICE"
    mv "$SCRATCH/sbom.json" "$SBOM"
    echo "$SBOM"
}

bench() {
    local options=(--drop-caps ALL)
    [[ -r $SIF ]] || die "$SIF does not exist: make sif DEVICE=$DEVICE"
    if [[ $DEVICE == gpu ]]; then options+=(--nv); fi
    # Ranks of one container use its loopback interface. The TPU runtime reads the machine's metadata over the network.
    if [[ $DEVICE != tpu && " ${FLAGS[*]}" != *" --net"* ]]; then options+=(--net --network none); fi
    exec apptainer run "${options[@]}" --bind "$PWD" --pwd "$PWD" "${FLAGS[@]}" "$SIF" bench "DEVICE=$DEVICE" "$@"
}
