#!/bin/sh
# Every container runs this script first: it makes the writable places, refuses a device that the image was not built
# for, and then runs the command.
set -eu
# shellcheck source=containers/environment.sh
. /accelbench/containers/environment.sh

for word in "$@"; do
    case $word in
        DEVICE=gpu | --device=gpu | DEVICE=tpu | --device=tpu) asked=${word#*=} ;;
        gpu-day) asked=gpu ;;
        *) continue ;;
    esac
    if [ "$asked" != "$ACCELBENCH_IMAGE_DEVICE" ]; then
        echo "accelbench: this image is built for $ACCELBENCH_IMAGE_DEVICE and has no libraries for $asked:" \
            "make image DEVICE=$asked, or make sif DEVICE=$asked" >&2
        exit 2
    fi
done

exec "$@"
