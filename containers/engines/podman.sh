# shellcheck shell=bash
# Functions for Podman, which has Docker's command line and needs no daemon.
# shellcheck source=containers/engines/oci.sh
. containers/engines/oci.sh

RUN_OPTIONS=() # no --init: Podman's init is often not installed
GPU_OPTIONS=(--device nvidia.com/gpu=all)
GPU_NEEDS="NVIDIA's driver and CDI specification (nvidia-ctk cdi generate)"

advice() { echo "apt install podman, or ENGINE=docker"; }

ready() { :; }

rootless() { [[ $(podman info --format '{{.Host.Security.Rootless}}') == true ]]; }

# Root without the capability CAP_SYS_RESOURCE, as in another container, cannot raise the limits that Podman sets by default.
start_advice() {
    [[ $(podman run --rm --network none --entrypoint true "$IMAGE" 2>&1) == *rlimit* ]] || return 0
    echo ': this user may not raise resource limits: in /etc/containers/containers.conf, section [containers], set' \
        'default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]'
}
