#!/usr/bin/env bash
# cuda12.sh - an nvcc of CUDA 12 beside one of CUDA 13, for a second module of kernels that drivers before 580 run (kernels/cuda): Debian's package of
# the compiler (87 MB, of trixie, non-free) and PyPI's of headers and runtime (5 MB), into third_party/cuda12, where cmake finds it. Nothing of the
# system is changed: apt-get keeps its lists in a folder of this script's. With the compiler there it does nothing. NVIDIA's licences apply.
set -euo pipefail
cd "$(dirname "$0")/.."

debian=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
compiler=nvidia-cuda-toolkit
wheels=(nvidia-cuda-runtime-cu12==12.4.127 nvidia-cuda-nvcc-cu12==12.4.131 nvidia-cuda-cccl-cu12==12.9.27)
to=third_party/cuda12

[ ! -x "$to/bin/nvcc" ] || exit 0
for tool in apt-get dpkg-deb python3; do
    command -v $tool >/dev/null || { echo "cuda12.sh: no $tool; or install CUDA 12.4 to 12.9 in /usr/local/cuda-12.x, where cmake finds it too" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,cache/archives/partial,deb,wheels,tree}
touch "$work/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $debian trixie non-free" >"$work/sources.list"
apt=(apt-get -qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$work/lists"
    -o "Dir::Cache=$work/cache" -o "Dir::State::status=$work/status" -o APT::Sandbox::User="$(id -un)")
"${apt[@]}" update
(cd "$work/deb" && "${apt[@]}" download "$compiler")
dpkg-deb -x "$work"/deb/*.deb "$work/deb/tree"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --platform manylinux2014_x86_64 \
    --dest "$work/wheels" "${wheels[@]}"
for wheel in "$work"/wheels/*.whl; do
    python3 -m zipfile -e "$wheel" "$work/wheels/tree"
done
python3 - "$work" <<'PYTHON'
import os, pathlib, shutil, sys

work = pathlib.Path(sys.argv[1])
deb, wheels, to = work / "deb/tree/usr", work / "wheels/tree/nvidia", work / "tree"
for name in ("bin/nvcc", "nvvm/bin/cicc", "bin/cudafe++", "bin/fatbinary", "bin/ptxas", "bin/nvlink", "bin/crt/link.stub", "bin/crt/prelink.stub",
             "nvvm/libdevice/libdevice.10.bc"):  # fmt: skip
    base = name.rsplit("bin/", 1)[-1]
    places = [deb / "lib/nvidia-cuda-toolkit" / part / base for part in ("bin", "")] + [deb / "lib/nvidia-cuda-toolkit/libdevice" / pathlib.Path(base).name, deb / "bin" / base]
    found = next((p for p in places if p.is_file()), None)
    if found is None: sys.exit(f"cuda12.sh: the package has no {base}")
    (to / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(found, to / name)
for folder in ("cuda_runtime", "cuda_nvcc", "cuda_cccl"):
    shutil.copytree(wheels / folder / "include", to / "include", dirs_exist_ok=True)
(to / "lib64").mkdir()
shutil.copy(wheels / "cuda_runtime/lib/libcudart.so.12", to / "lib64")
(to / "bin/nvcc.profile").write_text("""TOP = $(_HERE_)/..
CICC_PATH = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64"
""")
PYTHON
mkdir -p "$(dirname "$to")"
rm -rf "$to"
mv "$work/tree" "$to" # whole or not at all
"$to/bin/nvcc" --version | tail -2 | head -1 >&2
echo "an nvcc of CUDA 12 is in $to: configure again" >&2
