#!/usr/bin/env bash
# install.sh [build|test|quickstart|fuzz|pages|mpi|wheel|aarch64]... - installs the Debian or Ubuntu packages that are missing for these goals.
#
# What is there is found out by use (does pkg-config know jansson?), not from the package database, so libraries that
# were installed in another way count too. With nothing missing it ends at once and touches neither root nor network.
# Missing packages are installed as root or through sudo; without either, one line to run is printed and it fails.
set -euo pipefail

missing=()
need() { # need PACKAGE COMMAND...: the package is missing unless the command succeeds
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}
has() { command -v "$1"; }
has_library() { has pkg-config && pkg-config --exists "$1"; }
has_cmake() { has cmake && [ "$(printf '3.22\n%s\n' "$(cmake --version | awk 'NR == 1 { print $3 }')" | sort -V | head -1)" = 3.22 ]; }
# pip's own network code needs the certificates; curl brings them along only as a recommendation.
has_certificates() { [ -s /etc/ssl/certs/ca-certificates.crt ] || [ -n "${SSL_CERT_FILE:-}" ] || [ ! -d /etc/ssl ]; }

# clang's runtimes come as a package of their own; without them the link fails.
has_fuzzer() {
    has clang && echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d == 0 && n > 0; }' |
        clang -fsanitize=fuzzer,address,undefined -x c - -o /dev/null
}

for goal in "${@:-build}"; do
    case $goal in
    build | test | quickstart | fuzz | pages | mpi | wheel | aarch64) ;;
    *)
        echo "install.sh: unknown goal '$goal' (build, test, quickstart, fuzz, pages, mpi, wheel, aarch64)" >&2
        exit 2
        ;;
    esac
    need build-essential eval 'has cc && has make'
    need cmake has_cmake
    need ninja-build has ninja
    need pkg-config has pkg-config
    need libjansson-dev has_library jansson
    need libinih-dev has_library inih
    need libpcre2-dev has_library libpcre2-8
    need libssl-dev has_library libcrypto
    need libcurl4-openssl-dev has_library libcurl
    need libsqlite3-dev has_library sqlite3
    need libpq-dev has_library libpq
    need libjpeg-dev has_library libjpeg
    need libpng-dev has_library libpng
    need libwebp-dev has_library libwebp
    need zlib1g-dev has_library zlib
    need libzstd-dev has_library libzstd
    case $goal in
    test)
        need libcmocka-dev has_library cmocka
        need postgresql eval 'compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null || has postgres' # a test starts a server of its own
        need python3 has python3
        need python3-pip eval '"${0%/*}/cuda_headers.sh" --check || python3 -m pip --version' # which fetches them
        ;;
    wheel)
        need binutils has strip
        need python3 has python3
        ;;
    aarch64)
        need gcc-aarch64-linux-gnu has aarch64-linux-gnu-gcc
        need libc6-dev-arm64-cross [ -e /usr/aarch64-linux-gnu/include/stdio.h ]
        need qemu-user-static has qemu-aarch64-static
        ;;
    quickstart)
        need python3 has python3
        need python3-pip python3 -m pip --version
        need curl has curl
        need ca-certificates has_certificates
        ;;
    pages) # a browser, for the tests that look at HTML pages as people do; they are skipped without one
        need chromium eval 'has chromium || has chromium-browser || has google-chrome'
        ;;
    mpi) # the module for ranks on several hosts is built where it is; its tests are skipped without one
        need libopenmpi-dev eval 'has mpicc.openmpi || has mpicc'
        need openmpi-bin has mpirun.openmpi
        need iproute2 has ip # a link between two hosts
        ;;
    fuzz)
        need clang has clang
        need libclang-rt-dev has_fuzzer
        ;;
    esac
done

[ ${#missing[@]} -gt 0 ] || exit 0
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | awk '!seen[$0]++')
line=(apt-get install -y --no-install-recommends "${missing[@]}")

if ! has apt-get >/dev/null; then
    echo "install.sh: missing (by their Debian names): ${missing[*]}" >&2
    echo "  hint: there is no apt-get here; install these with your system's package manager" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    # A password is asked for only where someone can type it.
    if has sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && [ -t 2 ]; }; }; then
        as_root=(sudo)
    else
        echo "install.sh: packages are missing and there is neither root nor sudo; have this line run as root:" >&2
        echo "apt-get update && ${line[*]}" >&2
        exit 1
    fi
fi
echo "installing ${missing[*]}" >&2
install() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${line[@]}"; }
# Lists that are absent or old make the first try fail; an update costs seconds, so only then.
if ! install; then
    "${as_root[@]}" apt-get update || true # its failure shows in the next line
    install || {
        echo "install.sh: apt-get could not install: ${missing[*]}" >&2
        echo "  hint: see its messages above; then run: ${line[*]}" >&2
        exit 1
    }
fi
