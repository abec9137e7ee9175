# shellcheck shell=sh
# Sourced at the start of every container: create a writable folder for library caches.
# Numba, Keras, Matplotlib, CuPy and the CUDA driver write to $ACCELBENCH_CACHE, by default on the node's local disk.
if [ -z "${ACCELBENCH_CACHE:-}" ]; then
    ACCELBENCH_CACHE=${TMPDIR:-/tmp}/accelbench-cache-$(id -u)
    # Libraries load settings and code from this folder, and in a shared folder another user may have created it.
    if ! mkdir -m 700 "$ACCELBENCH_CACHE" 2>/dev/null; then
        case $(LC_ALL=C stat --format '%F %u %a' "$ACCELBENCH_CACHE" 2>/dev/null) in
            '' | "directory $(id -u) "*00) ;;
            *)
                found=$ACCELBENCH_CACHE
                # If no folder can be created, an impossible path leads to the warning below.
                ACCELBENCH_CACHE=$(mktemp -d "${TMPDIR:-/tmp}/accelbench-cache-XXXXXXXX") || ACCELBENCH_CACHE=/dev/null/none
                echo "accelbench: $found is not a private folder of this user: using $ACCELBENCH_CACHE for caches" >&2
                ;;
        esac
    fi
fi
export ACCELBENCH_CACHE
export NUMBA_CACHE_DIR="$ACCELBENCH_CACHE/numba" KERAS_HOME="$ACCELBENCH_CACHE/keras"
export MPLCONFIGDIR="$ACCELBENCH_CACHE/matplotlib"
export CUPY_CACHE_DIR="$ACCELBENCH_CACHE/cupy" CUDA_CACHE_PATH="$ACCELBENCH_CACHE/cuda"
# A user without an entry in the image has no home, and a read-only home is unusable.
if [ ! -w "${HOME:-}" ]; then export HOME="$ACCELBENCH_CACHE/home"; fi
mkdir -p "$HOME" "$KERAS_HOME" "$MPLCONFIGDIR" 2>/dev/null ||
    echo "accelbench: cannot write $ACCELBENCH_CACHE: mount a folder or a tmpfs on /tmp, or set ACCELBENCH_CACHE" >&2
# Apptainer passes on the host's variables, but the host's modules are for another interpreter.
unset PYTHONPATH PYTHONHOME
# Run the image's accelbench even if the current folder contains another (Apptainer starts in the caller's checkout).
export PYTHONSAFEPATH=1
