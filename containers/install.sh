#!/bin/sh
# What an image is made of, for the Dockerfile and for accelbench.def alike.
#   install.sh system                      the distribution's packages that a benchmark runs on
#   install.sh packages REQUIREMENTS.txt   the pinned Python packages, into /opt/venv
#   install.sh source FOLDER               make the project's source in that folder importable, and readable by anyone
set -eu

system() {
    apt-get update --quiet=2
    # GNU OpenMP is what Numba's threads run on; the C library and make are all else that the packages ask for.
    apt-get install --quiet=2 --yes --no-install-recommends libgomp1 make python3
    apt-get clean
    rm -rf /var/lib/apt/lists/*
}

packages() {
    # pip is needed to build, not to run: it stays outside of what is copied into the image.
    apt-get update --quiet=2
    apt-get install --quiet=2 --yes --no-install-recommends binutils python3-pip
    python3 -m venv --without-pip /opt/venv
    # A bundle of certificates that a site's proxy needs is mounted for this step only.
    bundle=/run/secrets/ca_bundle
    if [ -s "$bundle" ]; then export PIP_CERT="$bundle"; fi
    # The set is resolved as a whole, so nothing is looked up. Left out are what no measurement loads: libclang, which
    # builds TensorFlow from source, and duckdb, which a command-line tool of xprof asks of its traces.
    grep -v -e '^libclang==' -e '^duckdb==' "$1" >/tmp/pinned.txt
    python3 -m pip --python /opt/venv/bin/python install --quiet --no-cache-dir --disable-pip-version-check \
        --root-user-action ignore --only-binary :all: --no-deps --requirement /tmp/pinned.txt
    rm /tmp/pinned.txt
    # The source is added afterwards, as a layer of its own; where it will lie is known.
    site=$(echo /opt/venv/lib/python3*/site-packages)
    echo /accelbench >"$site/accelbench.pth"
    printf '#!/bin/sh\nexec /opt/venv/bin/python -m accelbench "$@"\n' >/opt/venv/bin/accelbench
    chmod 755 /opt/venv/bin/accelbench
    # Headers to compile against them, the packages' own tests, and symbols for debuggers: a quarter of the whole.
    rm -rf "$site/tensorflow/include" "$site/pyarrow/include"
    find "$site" -type d -name tests -prune -exec rm -rf {} +
    for package in tensorflow llvmlite pyarrow xprof; do
        find "$site/$package" -type f -name '*.so*' -exec strip --strip-unneeded {} +
    done
}

source_tree() {
    # The file modes are those of somebody's checkout, and another user must read them.
    chmod -R a+rX,go-w "$1"
    # Nobody can store byte code here later on; it is valid whatever the files' times are in another image format.
    python3 -m compileall -q --invalidation-mode unchecked-hash "$1"
    # Where results go when no folder is mounted: lost with the container, but shown.
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
