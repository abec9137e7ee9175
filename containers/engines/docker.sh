# shellcheck shell=bash
# Functions for Docker, which needs a running daemon that accepts connections of this user.
# shellcheck source=containers/engines/oci.sh
. containers/engines/oci.sh

# make does not forward an interrupt, so Docker's init sends it to the whole process group.
RUN_OPTIONS=(--init --env TINI_KILL_PROCESS_GROUP=1)
GPU_OPTIONS=(--gpus all)
GPU_NEEDS="NVIDIA's driver and its Container Toolkit"

advice() { echo "apt install docker.io, or ENGINE=podman"; }

ready() {
    local output
    if output=$(docker version --format '{{.Server.Version}}' 2>&1); then return; fi
    case $output in
        *"permission denied"*)
            die "no permission to open Docker's socket: sudo usermod -aG docker \$USER and log in again, or ENGINE=podman" ;;
        *) die "Docker's daemon does not respond: sudo systemctl start docker, or ENGINE=podman (${output##*$'\n'})" ;;
    esac
}

rootless() { [[ $(docker info --format '{{.SecurityOptions}}') == *rootless* ]]; }

# Print a remedy for a container that failed to start, after a colon.
start_advice() { :; }
