#!/bin/sh
# The Dockerfile and accelbench.def make an image by the same steps, which are these:
#   install.sh system                      installs the distribution's packages that a benchmark runs on
#   install.sh packages REQUIREMENTS.txt   installs the pinned Python packages into /opt/venv
#   install.sh source FOLDER               makes the project's source in that folder importable, and readable by anyone
set -eu

system() {
    apt-get update --quiet=2
    # Numba's threads run on GNU OpenMP; beside it, the packages ask for nothing but the C library and make.
    apt-get install --quiet=2 --yes --no-install-recommends libgomp1 make python3
    apt-get clean
    rm -rf /var/lib/apt/lists/*
}

packages() {
    # The build needs pip, a run does not: it stays outside of what is copied into the image.
    apt-get update --quiet=2
    apt-get install --quiet=2 --yes --no-install-recommends binutils python3-pip
    python3 -m venv --without-pip /opt/venv
    # A bundle of certificates that a site's proxy needs is mounted for this step only.
    bundle=/run/secrets/ca_bundle
    if [ -s "$bundle" ]; then export PIP_CERT="$bundle"; fi
    # The set is resolved as a whole, so pip looks nothing up. No measurement loads libclang, which builds TensorFlow
    # from source, or duckdb, by which a command-line tool of xprof searches its traces: both are left out.
    grep -v -e '^libclang==' -e '^duckdb==' "$1" >/tmp/pinned.txt
    python3 -m pip --python /opt/venv/bin/python install --quiet --no-cache-dir --disable-pip-version-check \
        --root-user-action ignore --only-binary :all: --no-deps --requirement /tmp/pinned.txt
    rm /tmp/pinned.txt
    # The source is added afterwards, as a layer of its own, at a place that is known already.
    site=$(echo /opt/venv/lib/python3*/site-packages)
    echo /accelbench >"$site/accelbench.pth"
    printf '#!/bin/sh\nexec /opt/venv/bin/python -m accelbench "$@"\n' >/opt/venv/bin/accelbench
    chmod 755 /opt/venv/bin/accelbench
    # No run uses the packages' headers, tests and symbols for debuggers, which take a quarter of the space.
    rm -rf "$site/tensorflow/include" "$site/pyarrow/include"
    find "$site" -type d -name tests -prune -exec rm -rf {} +
    for package in tensorflow llvmlite pyarrow xprof; do
        find "$site/$package" -type f -name '*.so*' -exec strip --strip-unneeded {} +
    done
}

source_tree() {
    # The file modes are those of somebody's checkout, and another user must read them.
    chmod -R a+rX,go-w "$1"
    # Nobody can store byte code here later on; this one is valid whatever the files' times are in another image format.
    python3 -m compileall -q --invalidation-mode unchecked-hash "$1"
    # Results go here when no folder is mounted: they are shown, and lost with the container.
    install --directory --mode 1777 "$1/runs"
}

command=$1
shift
case $command in
    system) system ;;
    packages) packages "$1" ;;
    source) source_tree "$1" ;;
    *) echo "install.sh: no such step: $command" >&2; exit 2 ;;
esac
