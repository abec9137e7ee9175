# shellcheck shell=sh
# Every container sources this file at its start: it makes one writable place for what libraries keep.
# Numba, Keras, Matplotlib, CuPy and the CUDA driver write below $ACCELBENCH_CACHE, on the node's own disk unless it is set.
ACCELBENCH_CACHE=${ACCELBENCH_CACHE:-${TMPDIR:-/tmp}/accelbench-cache-$(id -u)}
export ACCELBENCH_CACHE
export NUMBA_CACHE_DIR="$ACCELBENCH_CACHE/numba" KERAS_HOME="$ACCELBENCH_CACHE/keras"
export MPLCONFIGDIR="$ACCELBENCH_CACHE/matplotlib"
export CUPY_CACHE_DIR="$ACCELBENCH_CACHE/cupy" CUDA_CACHE_PATH="$ACCELBENCH_CACHE/cuda"
# A uid that the image does not know has no home, and a read-only one is as good as none.
if [ ! -w "${HOME:-/nonexistent}" ]; then export HOME="$ACCELBENCH_CACHE/home"; fi
mkdir -p "$HOME" "$KERAS_HOME" "$MPLCONFIGDIR" 2>/dev/null ||
    echo "accelbench: $ACCELBENCH_CACHE cannot be written: mount a folder or a tmpfs on /tmp, or set ACCELBENCH_CACHE" >&2
# The host's own modules are for another interpreter; Apptainer hands their variables on.
unset PYTHONPATH PYTHONHOME
