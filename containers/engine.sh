#!/usr/bin/env bash
# What `make image`, `make sif` and `make container-bench` do; the Makefile hands its variables over.
#   engine.sh image           build the image accelbench:DEVICE with Docker or Podman
#   engine.sh sif             turn it into containers/build/accelbench-DEVICE.sif
#   engine.sh bench WORD…     run `make bench WORD…` in one of them; results in ./runs, owned by the caller
# A thing that is missing ends with one line and exit status 2.
set -euo pipefail

DEVICE=${DEVICE:-cpu}
BASE=${BASE:-debian:bookworm-slim}
IMAGE=accelbench:$DEVICE
SIF=${SIF:-containers/build/accelbench-$DEVICE.sif}
RUNS=$PWD/runs
CERTIFICATES=${PIP_CERT:-${SSL_CERT_FILE:-}} # the host's own, for pip in the build; they are not kept
read -ra FLAGS <<<"${FLAGS:-}" # the engine's own, such as --cpus 2 --memory 4g

die() {
    echo "accelbench: $*" >&2
    exit 2
}

# --- the engines ---

installed() { command -v "$1" >/dev/null; }

require() {
    installed "$1" || die "$1 is not installed: $(advice "$1")"
    if [[ $1 == docker ]]; then require_daemon; fi
}

advice() {
    case $1 in
        docker) echo "apt install docker.io, or ENGINE=podman" ;;
        podman) echo "apt install podman, or ENGINE=docker" ;;
        apptainer) echo "it is in the packages of apptainer.org and of most clusters (module load apptainer)" ;;
    esac
}

require_daemon() {
    local said
    if said=$(docker version --format '{{.Server.Version}}' 2>&1); then return; fi
    case $said in
        *"permission denied"*)
            die "this user may not open Docker's socket: sudo usermod -aG docker \$USER and log in anew, or ENGINE=podman" ;;
        *) die "Docker's daemon does not answer: sudo systemctl start docker, or ENGINE=podman (${said##*$'\n'})" ;;
    esac
}

# The engine that was asked for, or the first one that is installed.
choose() {
    local engine
    if [[ -n ${ENGINE:-} ]]; then
        [[ " $* " == *" $ENGINE "* ]] || die "ENGINE=$ENGINE: choose one of $*"
        require "$ENGINE"
        return
    fi
    for engine in "$@"; do
        if installed "$engine"; then ENGINE=$engine; require "$engine"; return; fi
    done
    die "none of $* is installed: $(advice "$1")"
}

# --- building ---

# Beside the SIF, which is moved out of it: /tmp is often too small.
make_scratch() {
    if [[ -n ${scratch:-} ]]; then return; fi
    mkdir -p containers/build
    scratch=$(mktemp -d -p containers/build)
    trap 'rm -rf "$scratch"' EXIT
}


image() {
    local secrets=() log status=0
    choose docker podman
    make_scratch
    "$ENGINE" image inspect "$BASE" >/dev/null 2>&1 || "$ENGINE" pull --quiet "$BASE" >/dev/null ||
        die "there is no base image $BASE and it cannot be pulled: docker import one (containers/ci/base.sh), or BASE=…"
    if [[ -r $CERTIFICATES ]]; then secrets+=(--secret "id=ca_bundle,src=$CERTIFICATES"); fi
    if [[ -r ${PIP_CONFIG_FILE:-} ]]; then secrets+=(--secret "id=pip_conf,src=$PIP_CONFIG_FILE"); fi
    log=$(mktemp -p "$scratch")
    DOCKER_BUILDKIT=1 "$ENGINE" build --file containers/Dockerfile --target "$DEVICE" --tag "$IMAGE" \
        --build-arg "BASE=$BASE" --build-arg "REVISION=$(revision)" "${secrets[@]}" . 2>&1 | tee "$log" >&2 || status=$?
    if ((status)); then
        if grep -qi 'no space left' "$log"; then die "the disk is full: $ENGINE system prune, or a larger disk"; fi
        die "$ENGINE could not build $IMAGE: the reason is above"
    fi
    echo "$IMAGE: $(($("$ENGINE" image inspect --format '{{.Size}}' "$IMAGE") / 1000000)) MB, $(identity)"
}

revision() {
    git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null || true
}

# The image's identity: the digest of its configuration, which names every layer.
identity() {
    local id
    id=$("$ENGINE" image inspect --format '{{.Id}}' "$IMAGE" 2>/dev/null) ||
        die "$ENGINE has no image $IMAGE: make image DEVICE=$DEVICE ENGINE=$ENGINE"
    echo "sha256:${id#sha256:}"
}

# With Docker or Podman out of the image, with Apptainer alone from the base image. A SIF is there whole, or not at all.
sif() {
    local id='' options=()
    installed apptainer || die "apptainer is not installed: $(advice apptainer)"
    choose docker podman apptainer
    make_scratch
    if [[ $ENGINE == apptainer ]]; then
        options=(--build-arg bootstrap=docker --build-arg "from=$BASE")
        if [[ -f $BASE ]]; then options=(--build-arg bootstrap=docker-archive --build-arg "from=$BASE"); fi
        if [[ -r $CERTIFICATES ]]; then
            export APPTAINERENV_PIP_CERT=/tmp/ca_bundle
            options+=(--bind "$CERTIFICATES:/tmp/ca_bundle")
        fi
    else
        image
        id=$(identity)
    fi
    if [[ $id ]]; then
        "$ENGINE" save --output "$scratch/image.tar" "$IMAGE"
        options=(--build-arg bootstrap=docker-archive --build-arg "from=$scratch/image.tar" --build-arg "image=$id")
    fi
    apptainer build --fakeroot --mksquashfs-args '-comp zstd -Xcompression-level 3' \
        --build-arg "device=$DEVICE" --build-arg "revision=$(revision)" "${options[@]}" \
        "$scratch/image.sif" containers/accelbench.def || die "apptainer could not build $SIF: the reason is above"
    mv "$scratch/image.sif" "$SIF"
    echo "$SIF: $(($(stat --format %s "$SIF") / 1000000)) MB${id:+, of $id}"
}

# --- measuring ---

bench() {
    choose docker podman apptainer
    mkdir -p "$RUNS" 2>/dev/null && [[ -w $RUNS ]] || die "$RUNS cannot be written by $(id -un): results belong there"
    "bench_in_$([[ $ENGINE == apptainer ]] && echo sif || echo image)" "$@"
}

bench_in_image() {
    local id status=0 options user
    id=$(identity)
    user="$(id -u):$(id -g)"
    options=(--rm --read-only --tmpfs /tmp --shm-size 1g
        --volume "$RUNS:/accelbench/runs" --env "ACCELBENCH_IMAGE=$id" --env "COLUMNS=${COLUMNS:-$(columns)}")
    # make keeps an interrupt to itself, so Docker's init tells it to all; Podman's is often not installed.
    if [[ $ENGINE == docker ]]; then options+=(--init --env TINI_KILL_PROCESS_GROUP=1); fi
    if [[ -t 0 && -t 1 ]]; then options+=(--interactive --tty); fi
    # An engine without root maps users: who is root inside is the caller outside.
    if rootless; then user=0:0; fi
    if [[ $DEVICE == gpu && $ENGINE == docker ]]; then options+=(--gpus all); fi
    if [[ $DEVICE == gpu && $ENGINE == podman ]]; then options+=(--device nvidia.com/gpu=all); fi
    if [[ $DEVICE == tpu ]]; then options+=(--privileged); fi
    data_folder
    if [[ -n $data ]]; then options+=(--volume "$data:/data:ro" --env ACCELBENCH_DATA=/data); fi
    "$ENGINE" run "${options[@]}" --user "$user" "${FLAGS[@]}" "$IMAGE" make bench "DEVICE=$DEVICE" "$@" || status=$?
    # 125 to 127: the engine could not start the container, and has said why.
    if ((status >= 125 && status <= 127)); then die "$ENGINE could not start $IMAGE$(why_not)"; fi
    exit "$status"
}

why_not() {
    if [[ $DEVICE == gpu ]]; then
        case $ENGINE in
            docker) echo " with a GPU: the host needs NVIDIA's driver and its Container Toolkit" ;;
            podman) echo " with a GPU: the host needs NVIDIA's driver and CDI specification (nvidia-ctk cdi generate)" ;;
        esac
    fi
}

rootless() {
    case $ENGINE in
        docker) [[ $(docker info --format '{{.SecurityOptions}}') == *rootless* ]] ;;
        podman) [[ $(podman info --format '{{.Host.Security.Rootless}}') == true ]] ;;
    esac
}

columns() { tput cols 2>/dev/null || echo 100; }

# Data sets that were fetched on the host, for reading.
data_folder() {
    data=${ACCELBENCH_DATA:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/accelbench}
    if [[ ! -d $data ]]; then data=; fi
}

bench_in_sif() {
    local nv=()
    [[ -r $SIF ]] || die "there is no $SIF: make sif DEVICE=$DEVICE"
    if [[ $DEVICE == gpu ]]; then nv=(--nv); fi
    exec apptainer run "${nv[@]}" --bind "$PWD" --pwd "$PWD" "${FLAGS[@]}" "$SIF" bench "DEVICE=$DEVICE" "$@"
}

main() {
    case ${1:-} in
        image | sif) "$1" ;;
        bench) bench "${@:2}" ;;
        *) die "engine.sh image|sif|bench" ;;
    esac
}

main "$@"
