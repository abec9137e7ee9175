# shellcheck shell=bash
# Functions shared by Docker and Podman, which build and run OCI images with the same command line. The engines' files
# define the differences: RUN_OPTIONS, GPU_OPTIONS, GPU_NEEDS, `rootless` and `start_advice`.

# Restrictions of all containers. Options in FLAGS override each: --cap-add, --security-opt, --network.
CONFINED=(--cap-drop ALL --security-opt no-new-privileges)

image() {
    local secrets=() log digest status=0
    "$ENGINE" image inspect "$BASE" >/dev/null 2>&1 || "$ENGINE" pull --quiet "$BASE" >/dev/null ||
        die "cannot find or pull the base image $BASE: import one (containers/ci/base.sh) and pass BASE=IMAGE"
    digest=$(base_digest)
    if [[ -r $CERTIFICATES ]]; then secrets+=(--secret "id=ca_bundle,src=$CERTIFICATES"); fi
    if [[ -r ${PIP_CONFIG_FILE:-} ]]; then secrets+=(--secret "id=pip_conf,src=$PIP_CONFIG_FILE"); fi
    log=$(mktemp -p "$SCRATCH")
    DOCKER_BUILDKIT=1 "$ENGINE" build --file containers/Dockerfile --target "$DEVICE" --tag "$IMAGE" \
        --build-arg "BASE=$BASE" --build-arg "BASE_DIGEST=$digest" --build-arg "REVISION=$(revision)" "${secrets[@]}" . 2>&1 | tee "$log" >&2 || status=$?
    if ((status)); then
        if grep -qi 'no space left' "$log"; then die "the disk is full: $ENGINE system prune, or use a larger disk"; fi
        die "$ENGINE failed to build $IMAGE (reason above)"
    fi
    echo "$IMAGE: $(($("$ENGINE" image inspect --format '{{.Size}}' "$IMAGE") / 1000000)) MB, $(identity), base $BASE (${digest:-no registry digest})"
}

# Print the registry digest of the base image, which pins it as BASE=NAME@DIGEST; nothing for an imported image.
base_digest() {
    local known
    known=$("$ENGINE" image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$BASE")
    known=${known%%$'\n'*}
    echo "${known#*@}"
}

# Copy the list of contents, generated at build time, out of the image.
sbom() {
    identity >/dev/null
    "$ENGINE" run --rm "${CONFINED[@]}" --network none --entrypoint cat "$IMAGE" /opt/venv/share/sbom.cdx.json \
        >"$SCRATCH/sbom.json" || die "$IMAGE has no list of its contents: make image DEVICE=$DEVICE ENGINE=$ENGINE"
    mv "$SCRATCH/sbom.json" "$SBOM"
    echo "$SBOM"
}

# Print the image's ID: the digest of its configuration, which identifies every layer.
identity() {
    local id
    id=$("$ENGINE" image inspect --format '{{.Id}}' "$IMAGE" 2>/dev/null) ||
        die "$ENGINE has no image $IMAGE: make image DEVICE=$DEVICE ENGINE=$ENGINE"
    echo "sha256:${id#sha256:}"
}

# Print a label of the image; nothing without the image or the label.
label() {
    "$ENGINE" image inspect --format "{{index .Config.Labels \"org.opencontainers.image.$1\"}}" "$IMAGE" 2>/dev/null || true
}

# Succeed if the image was built from these files, without changes since their commit, and from the given base.
is_current() {
    local commit
    commit=$(label revision)
    [[ -n $commit && $commit == "$(revision)" && -z $(git status --porcelain) && $(label base.name) == "$BASE" ]]
}

# Convert the image to a SIF with Apptainer. An image of other files is built again, without BASE= from the same base.
# Apptainer would compress the layers of an archive only to unpack them again, so it gets a folder with the image's files.
sif() {
    local id container status=0 base
    base=$(label base.name)
    if [[ -z $BASE_GIVEN && -n $base ]]; then BASE=$base; fi
    if is_current; then echo "converting $IMAGE, base $BASE" >&2; else image; fi
    id=$(identity)
    mkdir "$SCRATCH/root"
    container=$("$ENGINE" create "$IMAGE")
    # Only root may create devices, and Apptainer mounts the host's.
    "$ENGINE" export "$container" | tar --extract --directory "$SCRATCH/root" --preserve-permissions --no-same-owner \
        --anchored --exclude=.dockerenv --exclude='dev/*' || status=$?
    "$ENGINE" rm "$container" >/dev/null
    ((status == 0)) || die "$ENGINE failed to export $IMAGE (reason above)"
    load apptainer
    build_sif "$id" --build-arg bootstrap=localimage --build-arg "from=$SCRATCH/root" --build-arg "image=$id"
}

bench() {
    local status=0 id user data options
    id=$(identity)
    options=(--rm --read-only --tmpfs /tmp --shm-size 1g --volume "$RUNS:/accelbench/runs"
        --env "ACCELBENCH_IMAGE=$id" --env "COLUMNS=${COLUMNS:-$(tput cols 2>/dev/null || echo 100)}" "${RUN_OPTIONS[@]}")
    if [[ -t 0 && -t 1 ]]; then options+=(--interactive --tty); fi
    # A rootless engine maps the container's root to the calling user.
    user=$(id -u):$(id -g)
    if rootless; then user=0:0; fi
    if [[ $DEVICE == gpu ]]; then options+=("${GPU_OPTIONS[@]}"); fi
    if [[ $DEVICE == tpu ]]; then
        echo "accelbench: the TPU runtime requires --privileged and the network: the container has its user's rights on the host" >&2
        options+=(--privileged)
    else
        options+=("${CONFINED[@]}")
        # Ranks of one container use its loopback interface. Engines join every given network, so FLAGS replaces this option.
        if [[ ! " ${FLAGS[*]}" =~ \ --net(work)?[=\ ] ]]; then options+=(--network none); fi
    fi
    # Data sets fetched on the host are mounted read-only.
    data=${ACCELBENCH_DATA:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/accelbench}
    if [[ -d $data ]]; then options+=(--volume "$data:/data:ro" --env ACCELBENCH_DATA=/data); fi
    "$ENGINE" run "${options[@]}" --user "$user" "${FLAGS[@]}" "$IMAGE" make bench "DEVICE=$DEVICE" "$@" || status=$?
    # Status 125 to 127: the engine failed to start the container and has printed the reason.
    if ((status < 125 || status > 127)); then exit "$status"; fi
    if [[ $DEVICE == gpu ]]; then die "$ENGINE failed to start $IMAGE with a GPU: the host needs $GPU_NEEDS"; fi
    die "$ENGINE failed to start $IMAGE (reason above)$(start_advice)"
}
