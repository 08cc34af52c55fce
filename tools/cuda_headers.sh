#!/usr/bin/env bash
# cuda_headers.sh - NVIDIA's headers for vector and half types, which the tests of CUDA kernels on the host need where there
# is no CUDA toolkit: three wheels of PyPI (6 MB), headers only, into third_party/cuda. With any there it does nothing;
# with --check it only says by its exit status whether there are any.
set -euo pipefail
cd "$(dirname "$0")/.."

wheels=(nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85)
to=third_party/cuda

for folder in "$to/nvidia/cu13/include" "${CUDA_HOME:-/usr/local/cuda}/include" /usr/local/include /usr/include; do
    [ ! -s "$folder/cuda_bf16.h" ] || exit 0
done
[ "${1:-}" != --check ] || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --platform manylinux2014_x86_64 \
    --dest "$work" "${wheels[@]}"
mkdir "$work/tree"
python3 - "$work" <<'PYTHON'
import pathlib, sys, zipfile

work = pathlib.Path(sys.argv[1])
for wheel in work.glob("*.whl"):
    with zipfile.ZipFile(wheel) as file:
        for name in file.namelist():
            if ("/include/" in name or "/licenses/" in name) and "/cccl/" not in name:
                file.extract(name, work / "tree")
PYTHON
mkdir -p "$(dirname "$to")"
rm -rf "$to"
mv "$work/tree" "$to" # whole or not at all
echo "CUDA headers are in $to" >&2
