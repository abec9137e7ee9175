#!/bin/sh
# Entry point of every container: create the writable folders, refuse a device other than the image's, and run the
# command.
set -eu
# shellcheck source=containers/environment.sh
. /accelbench/containers/environment.sh

for word in "$@"; do
    case $word in
        DEVICE=gpu | --device=gpu | DEVICE=tpu | --device=tpu) requested=${word#*=} ;;
        gpu-day) requested=gpu ;;
        *) continue ;;
    esac
    if [ "$requested" != "$ACCELBENCH_IMAGE_DEVICE" ]; then
        echo "accelbench: this image is built for $ACCELBENCH_IMAGE_DEVICE and lacks the libraries for $requested:" \
            "make image DEVICE=$requested, or make sif DEVICE=$requested" >&2
        exit 2
    fi
done

exec "$@"
