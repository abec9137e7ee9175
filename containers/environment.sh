# shellcheck shell=sh
# Every container sources this file at its start: it makes one writable place for what libraries keep.
# Numba, Keras, Matplotlib, CuPy and the CUDA driver write below $ACCELBENCH_CACHE, on the node's own disk unless it is set.
if [ -z "${ACCELBENCH_CACHE:-}" ]; then
    ACCELBENCH_CACHE=${TMPDIR:-/tmp}/accelbench-cache-$(id -u)
    # Libraries take settings and code from there, and in a shared folder anybody may have made it.
    if ! mkdir -m 700 "$ACCELBENCH_CACHE" 2>/dev/null; then
        case $(LC_ALL=C stat --format '%F %u %a' "$ACCELBENCH_CACHE" 2>/dev/null) in
            '' | "directory $(id -u) "*00) ;;
            *)
                found=$ACCELBENCH_CACHE
                # Where even that cannot be made, a place that cannot be lets the last lines say what to do.
                ACCELBENCH_CACHE=$(mktemp -d "${TMPDIR:-/tmp}/accelbench-cache-XXXXXXXX") || ACCELBENCH_CACHE=/dev/null/none
                echo "accelbench: $found is not a folder of this user's alone: caches are in $ACCELBENCH_CACHE" >&2
                ;;
        esac
    fi
fi
export ACCELBENCH_CACHE
export NUMBA_CACHE_DIR="$ACCELBENCH_CACHE/numba" KERAS_HOME="$ACCELBENCH_CACHE/keras"
export MPLCONFIGDIR="$ACCELBENCH_CACHE/matplotlib"
export CUPY_CACHE_DIR="$ACCELBENCH_CACHE/cupy" CUDA_CACHE_PATH="$ACCELBENCH_CACHE/cuda"
# A uid that the image does not know has no home, and a read-only one is as good as none.
if [ ! -w "${HOME:-}" ]; then export HOME="$ACCELBENCH_CACHE/home"; fi
mkdir -p "$HOME" "$KERAS_HOME" "$MPLCONFIGDIR" 2>/dev/null ||
    echo "accelbench: $ACCELBENCH_CACHE cannot be written: mount a folder or a tmpfs on /tmp, or set ACCELBENCH_CACHE" >&2
# The host's own modules are for another interpreter; Apptainer hands their variables on.
unset PYTHONPATH PYTHONHOME
# The image's accelbench runs, also in a folder that has another one (Apptainer starts in the caller's checkout).
export PYTHONSAFEPATH=1
