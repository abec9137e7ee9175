# shellcheck shell=bash
# Docker runs containers through a daemon, which must be up and open to this user.
# shellcheck source=containers/engines/oci.sh
. containers/engines/oci.sh

# make keeps an interrupt to itself, so Docker's init passes it on to all processes.
RUN_OPTIONS=(--init --env TINI_KILL_PROCESS_GROUP=1)
GPU_OPTIONS=(--gpus all)
GPU_NEEDS="NVIDIA's driver and its Container Toolkit"

advice() { echo "apt install docker.io, or ENGINE=podman"; }

ready() {
    local said
    if said=$(docker version --format '{{.Server.Version}}' 2>&1); then return; fi
    case $said in
        *"permission denied"*)
            die "this user may not open Docker's socket: sudo usermod -aG docker \$USER and log in anew, or ENGINE=podman" ;;
        *) die "Docker's daemon does not answer: sudo systemctl start docker, or ENGINE=podman (${said##*$'\n'})" ;;
    esac
}

rootless() { [[ $(docker info --format '{{.SecurityOptions}}') == *rootless* ]]; }
