# shellcheck shell=bash
# Docker and Podman share this file, because both build and run OCI images by the same command line. What each of them
# has of its own is in its file: RUN_OPTIONS, GPU_OPTIONS, GPU_NEEDS and `rootless`.

# What a measurement needs none of. A later option of FLAGS takes each back: --cap-add, --security-opt, --network.
CONFINED=(--cap-drop ALL --security-opt no-new-privileges)

image() {
    local secrets=() log digest status=0
    "$ENGINE" image inspect "$BASE" >/dev/null 2>&1 || "$ENGINE" pull --quiet "$BASE" >/dev/null ||
        die "there is no base image $BASE and it cannot be pulled: import one (containers/ci/base.sh) and name it: BASE=…"
    digest=$(base_digest)
    if [[ -r $CERTIFICATES ]]; then secrets+=(--secret "id=ca_bundle,src=$CERTIFICATES"); fi
    if [[ -r ${PIP_CONFIG_FILE:-} ]]; then secrets+=(--secret "id=pip_conf,src=$PIP_CONFIG_FILE"); fi
    log=$(mktemp -p "$SCRATCH")
    DOCKER_BUILDKIT=1 "$ENGINE" build --file containers/Dockerfile --target "$DEVICE" --tag "$IMAGE" \
        --build-arg "BASE=$BASE" --build-arg "BASE_DIGEST=$digest" --build-arg "REVISION=$(revision)" "${secrets[@]}" . 2>&1 | tee "$log" >&2 || status=$?
    if ((status)); then
        if grep -qi 'no space left' "$log"; then die "the disk is full: $ENGINE system prune, or a larger disk"; fi
        die "$ENGINE could not build $IMAGE: the reason is above"
    fi
    echo "$IMAGE: $(($("$ENGINE" image inspect --format '{{.Size}}' "$IMAGE") / 1000000)) MB, $(identity), on $BASE with ${digest:-no digest of a registry}"
}

# Print the digest under which a registry has the base image, by which BASE=NAME@DIGEST gives the very same one for ever;
# nothing for an image that was imported here.
base_digest() {
    local known
    known=$("$ENGINE" image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$BASE")
    known=${known%%$'\n'*}
    echo "${known#*@}"
}

# Write the list of what is in the image, which its build made there.
sbom() {
    identity >/dev/null
    "$ENGINE" run --rm "${CONFINED[@]}" --network none --entrypoint cat "$IMAGE" /opt/venv/share/sbom.cdx.json \
        >"$SCRATCH/sbom.json" || die "$IMAGE holds no list of what is in it: make image DEVICE=$DEVICE ENGINE=$ENGINE"
    mv "$SCRATCH/sbom.json" "$SBOM"
    echo "$SBOM"
}

# Print the image's identity: the digest of its configuration, which names every layer.
identity() {
    local id
    id=$("$ENGINE" image inspect --format '{{.Id}}' "$IMAGE" 2>/dev/null) ||
        die "$ENGINE has no image $IMAGE: make image DEVICE=$DEVICE ENGINE=$ENGINE"
    echo "sha256:${id#sha256:}"
}

# Build the image, and let Apptainer turn it into a SIF.
sif() {
    local id
    image
    id=$(identity)
    "$ENGINE" save --output "$SCRATCH/image.tar" "$IMAGE"
    load apptainer
    build_sif "$id" --build-arg bootstrap=docker-archive --build-arg "from=$SCRATCH/image.tar" --build-arg "image=$id"
}

bench() {
    local status=0 id user data options
    id=$(identity)
    options=(--rm --read-only --tmpfs /tmp --shm-size 1g --volume "$RUNS:/accelbench/runs"
        --env "ACCELBENCH_IMAGE=$id" --env "COLUMNS=${COLUMNS:-$(tput cols 2>/dev/null || echo 100)}" "${RUN_OPTIONS[@]}")
    if [[ -t 0 && -t 1 ]]; then options+=(--interactive --tty); fi
    # An engine without root maps users: who is root inside is the caller outside.
    user=$(id -u):$(id -g)
    if rootless; then user=0:0; fi
    if [[ $DEVICE == gpu ]]; then options+=("${GPU_OPTIONS[@]}"); fi
    if [[ $DEVICE == tpu ]]; then
        echo "accelbench: a TPU's runtime wants --privileged and the network: the container may do what its user may on the host" >&2
        options+=(--privileged)
    else
        options+=("${CONFINED[@]}")
        # Ranks of one container meet on its loopback. An engine joins every network that it is told, so ours is left out.
        if [[ ! " ${FLAGS[*]}" =~ \ --net(work)?[=\ ] ]]; then options+=(--network none); fi
    fi
    # The container may read the data sets that were fetched on the host.
    data=${ACCELBENCH_DATA:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/accelbench}
    if [[ -d $data ]]; then options+=(--volume "$data:/data:ro" --env ACCELBENCH_DATA=/data); fi
    "$ENGINE" run "${options[@]}" --user "$user" "${FLAGS[@]}" "$IMAGE" make bench "DEVICE=$DEVICE" "$@" || status=$?
    # With a status of 125 to 127 the engine could not start the container, and has said why.
    if ((status < 125 || status > 127)); then exit "$status"; fi
    if [[ $DEVICE == gpu ]]; then die "$ENGINE could not start $IMAGE with a GPU: the host needs $GPU_NEEDS"; fi
    die "$ENGINE could not start $IMAGE"
}
