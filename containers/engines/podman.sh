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
