#!/usr/bin/env bash
# cuda_disassembler.sh - NVIDIA's cuobjdump and nvdisasm for tests/kernels/cuda/test_sass.sh, where the CUDA toolkit lacks them:
# two wheels of PyPI (6 MB), into third_party/cuda-disassembler. With them there it does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

wheels=(nvidia-cuda-cuobjdump==13.5.37 nvidia-cuda-nvdisasm==13.5.37)
to=third_party/cuda-disassembler

for folder in "$to/nvidia/cu13/bin" "${CUDA_HOME:-/usr/local/cuda}/bin"; do
    [ ! -x "$folder/cuobjdump" ] || [ ! -x "$folder/nvdisasm" ] || exit 0
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --platform manylinux2014_x86_64 \
    --dest "$work" "${wheels[@]}"
mkdir "$work/tree"
for wheel in "$work"/*.whl; do
    python3 -m zipfile -e "$wheel" "$work/tree"
done
chmod +x "$work"/tree/nvidia/cu13/bin/*
mkdir -p "$(dirname "$to")"
rm -rf "$to"
mv "$work/tree" "$to" # whole or not at all
echo "cuobjdump and nvdisasm are in $to" >&2
