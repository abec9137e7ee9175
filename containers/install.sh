#!/bin/sh
# Build steps shared by the Dockerfile and accelbench.def:
#   install.sh system                      install the distribution's packages required at run time
#   install.sh packages FOLDER DEVICE      install DEVICE.lock of FOLDER (requirements/) into /opt/venv, and list the
#                                          packages in share/sbom.cdx.json of it
#   install.sh source FOLDER               make the project's source in FOLDER importable, and readable by all users
set -eu

system() {
    apt-get update --quiet=2
    # Numba's threads need GNU OpenMP; otherwise only the C library, Python and make are required.
    apt-get install --quiet=2 --yes --no-install-recommends libgomp1 make python3
    apt-get clean
    rm -rf /var/lib/apt/lists/*
}

packages() {
    # pip is needed only during the build, so it stays outside the copied folder.
    apt-get update --quiet=2
    apt-get install --quiet=2 --yes --no-install-recommends binutils python3-pip
    # The certificates of a TLS-intercepting proxy are mounted only for this step.
    bundle=/run/secrets/ca_bundle
    if [ -s "$bundle" ]; then export PIP_CERT="$bundle"; fi
    # uv and the tool that lists the packages have a separate environment outside the image. pip resolves nothing and
    # verifies every file's SHA-256.
    python3 -m venv --without-pip /tmp/tools
    python3 -m pip --python /tmp/tools/bin/python install --quiet --no-cache-dir --disable-pip-version-check \
        --root-user-action ignore --only-binary :all: --no-deps --require-hashes --requirement "$1/tools.lock"
    python3 -m venv --without-pip /opt/venv
    python3 "$1/install.py" /opt/venv "$1/$2.lock" /tmp/tools
    mkdir -p /opt/venv/share
    /tmp/tools/bin/python -m cyclonedx_py environment --output-reproducible --output-format JSON \
        --output-file /opt/venv/share/sbom.cdx.json /opt/venv/bin/python
    rm -rf /tmp/tools
    # The source is added later as a separate layer at this fixed path.
    site=$(echo /opt/venv/lib/python3*/site-packages)
    echo /accelbench >"$site/accelbench.pth"
    printf '#!/bin/sh\nexec /opt/venv/bin/python -m accelbench "$@"\n' >/opt/venv/bin/accelbench
    chmod 755 /opt/venv/bin/accelbench
    # Headers, tests and debugging symbols of packages are unused and take a quarter of the space.
    rm -rf "$site/tensorflow/include" "$site/pyarrow/include"
    find "$site" -type d -name tests -prune -exec rm -rf {} +
    # An image is read-only, so modules are compiled now, except templates of code that are no valid modules.
    python3 -m compileall -qq -j 0 "$site" || true
    for package in tensorflow llvmlite pyarrow xprof; do
        # The image of a TPU has JAX, and no TensorFlow.
        if [ -d "$site/$package" ]; then find "$site/$package" -type f -name '*.so*' -exec strip --strip-unneeded {} +; fi
    done
}

source_tree() {
    # Depending on the engine, a symbolic link is copied as a link, as its target, or not at all.
    for name in kernels profiling workloads; do
        rm -rf "${1:?}/accelbench/$name"
        ln -s "../$name" "$1/accelbench/$name"
    done
    # The file modes come from the checkout, and other users must be able to read the files.
    chmod -R a+rX,go-w "$1"
    # Byte code cannot be written later; unchecked hashes stay valid when another image format changes file times.
    python3 -m compileall -q --invalidation-mode unchecked-hash "$1"
    # Results folder for containers without a mount; it is lost with the container.
    install --directory --mode 1777 "$1/runs"
}

command=$1
shift
case $command in
    system) system ;;
    packages) packages "$1" "$2" ;;
    source) source_tree "$1" ;;
    *) echo "install.sh: unknown step '$command' (choose system, packages or source)" >&2; exit 2 ;;
esac
