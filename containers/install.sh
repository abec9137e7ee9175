#!/bin/sh
# The Dockerfile and accelbench.def make an image by the same steps, which are these:
#   install.sh system                      installs the distribution's packages that a benchmark runs on
#   install.sh packages LOCK SBOM.lock     installs the locked Python packages into /opt/venv, and lists them there in
#                                          share/sbom.cdx.json by the tool that the second lock names
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
    locked /opt/venv "$1"
    # The list is made by a tool of an environment of its own, which stays outside of the image, too.
    python3 -m venv --without-pip /tmp/sbom
    locked /tmp/sbom "$2"
    mkdir -p /opt/venv/share
    /tmp/sbom/bin/python -m cyclonedx_py environment --output-reproducible --output-format JSON \
        --output-file /opt/venv/share/sbom.cdx.json /opt/venv/bin/python
    rm -rf /tmp/sbom
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

# Install a locked set into an environment. It was resolved as a whole, so pip looks nothing up, and takes no file that
# has another SHA-256 than the lock says.
locked() {
    python3 -m pip --python "$1/bin/python" install --quiet --no-cache-dir --disable-pip-version-check \
        --root-user-action ignore --only-binary :all: --no-deps --require-hashes --requirement "$2"
}

source_tree() {
    # Engines copy a symbolic link as a link, as what it leads to, or not at all.
    for name in kernels profiling workloads; do
        rm -rf "${1:?}/accelbench/$name"
        ln -s "../$name" "$1/accelbench/$name"
    done
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
    packages) packages "$1" "$2" ;;
    source) source_tree "$1" ;;
    *) echo "install.sh: no such step: $command" >&2; exit 2 ;;
esac
