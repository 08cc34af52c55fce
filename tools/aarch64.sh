#!/usr/bin/env bash
# aarch64.sh [BUILD [CMAKE OPTION...]] - builds for 64-bit ARM on another machine, in BUILD (build-aarch64): the program and the library (or what TARGETS
# names), with Debian's cross compiler and Debian's libraries for arm64. Those are unpacked into BUILD/root, where a Python for arm64 lies, too; the
# packages of this machine stay as they are.
# BUILD/run WORDS... is that program under qemu's emulation, BUILD/python a Python that runs there.
set -euo pipefail

source_dir=$(cd "${0%/*}/.." && pwd)
"$source_dir/tools/install.sh" build aarch64
build=$(mkdir -p "${1:-build-aarch64}" && cd "${1:-build-aarch64}" && pwd)
root=$build/root

# A package manager of its own, as if nothing were installed: it finds what these need of each other.
if [ ! -e "$root/complete" ]; then
    apt=$build/apt
    mkdir -p "$apt"/{lists/partial,archives/partial,empty}
    : >"$apt/status"
    cat >"$apt/conf" <<-END
		APT::Architecture "arm64";
		APT::Architectures { "arm64"; };
		Dir::State "$apt";
		Dir::State::lists "$apt/lists";
		Dir::State::status "$apt/status";
		Dir::State::extended_states "$apt/extended_states";
		Dir::Cache "$apt";
		Dir::Cache::archives "$apt/archives";
		Dir::Log "$apt";
		DPkg::Post-Invoke "";
		APT::Sandbox::User "$(id -un)";
	END
    export APT_CONFIG=$apt/conf
    apt-get update -qq
    apt-get install -qq -y --no-install-recommends --download-only libjansson-dev libinih-dev libpcre2-dev libssl-dev libcurl4-openssl-dev \
        libsqlite3-dev libpq-dev libjpeg-dev libpng-dev libwebp-dev zlib1g-dev libzstd-dev python3-minimal libpython3-stdlib
    unset APT_CONFIG
    rm -rf "$root"
    mkdir -p "$root"
    for package in "$apt"/archives/*.deb; do
        dpkg-deb -x "$package" "$root"
    done
    rm -rf "$apt"
    touch "$root/complete"
fi

[ -f "$build/CMakeCache.txt" ] || cmake -B "$build" -G Ninja -S "$source_dir" -D CMAKE_TOOLCHAIN_FILE="$source_dir/tools/aarch64.cmake" -D FT_ROOT="$root" \
    -D BUILD_TESTING=OFF -D FT_CUDA=OFF "${@:2}"
# shellcheck disable=SC2086
cmake --build "$build" --parallel "${JOBS:-$(nproc)}" --target ${TARGETS:-ftengine_dist ftengine_shared}

# An emulated program cannot start another one by itself: what it starts are these scripts.
qemu="qemu-aarch64-static -L $root"
program=$build/dist/ftengine
[ -e "$program" ] || program=$build/ftengine
printf '#!/bin/sh\nexec %s %s "$@"\n' "$qemu" "$program" >"$build/run"
printf '#!/bin/sh\nPYTHONHOME=%s exec %s %s "$@"\n' "$root/usr" "$qemu" "$root/usr/bin/python3" >"$build/python"
chmod +x "$build/run" "$build/python"
"$build/run" --version
