# shellcheck shell=bash
# Apptainer builds and runs a SIF: one file, which needs neither a daemon nor root.

advice() { echo "it is in the packages of apptainer.org and of most clusters (module load apptainer)"; }

ready() { :; }

# Build the SIF from the base image alone.
sif() {
    local options=(--build-arg bootstrap=docker --build-arg "from=$BASE")
    if [[ -f $BASE ]]; then options=(--build-arg bootstrap=docker-archive --build-arg "from=$BASE"); fi
    if [[ -r $CERTIFICATES ]]; then
        export APPTAINERENV_PIP_CERT=/tmp/ca_bundle
        options+=(--bind "$CERTIFICATES:/tmp/ca_bundle")
    fi
    build_sif '' "${options[@]}"
}

# Build the SIF with these options. The first argument is the identity of the image that it is made of, if there is one.
# The SIF is there whole, or not at all.
build_sif() {
    apptainer build --fakeroot --mksquashfs-args '-comp zstd -Xcompression-level 3' \
        --build-arg "device=$DEVICE" --build-arg "revision=$(revision)" "${@:2}" \
        "$SCRATCH/image.sif" containers/accelbench.def || die "apptainer could not build $SIF: the reason is above"
    mv "$SCRATCH/image.sif" "$SIF"
    echo "$SIF: $(($(stat --format %s "$SIF") / 1000000)) MB${1:+, of $1}"
}

sbom() {
    [[ -r $SIF ]] || die "there is no $SIF: make sif DEVICE=$DEVICE"
    apptainer exec "$SIF" cat /opt/venv/share/sbom.cdx.json >"$SCRATCH/sbom.json" ||
        die "$SIF holds no list of what is in it: make sif DEVICE=$DEVICE"
    mv "$SCRATCH/sbom.json" "$SBOM"
    echo "$SBOM"
}

bench() {
    local options=(--drop-caps ALL)
    [[ -r $SIF ]] || die "there is no $SIF: make sif DEVICE=$DEVICE"
    if [[ $DEVICE == gpu ]]; then options+=(--nv); fi
    # Ranks of one container meet on its loopback. A TPU's runtime asks its machine's metadata over the network.
    if [[ $DEVICE != tpu && " ${FLAGS[*]}" != *" --net"* ]]; then options+=(--net --network none); fi
    exec apptainer run "${options[@]}" --bind "$PWD" --pwd "$PWD" "${FLAGS[@]}" "$SIF" bench "DEVICE=$DEVICE" "$@"
}
