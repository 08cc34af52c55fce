#!/usr/bin/env python3
"""wheel.py BUILD OUT [--zig COMMAND] [--cuda] - writes the wheel of this build: the program, libftengine.so and the Python module.

A wheel is a zip of files in their places. The module needs no library beside the C library: those of others are linked in as archives. The tag says
the oldest C library that it runs with, and is read from the symbols of what was linked: that of this machine (Debian 12: 2.34). Linked there, two
libraries lie beside libftengine.so, since Debian's archives of them are for programs only (FT_PROGRAM_ARCHIVES of CMakeLists.txt).

With zig (the package ziglang of PyPI; make wheel ZIG="python3 -m ziglang") as the linker of what gcc compiled it is glibc 2.28 at the latest, and nothing
lies beside. Compiled by zig too, the choice of the instruction set would always fall back to plain C: its __builtin_cpu_supports says no to
everything. BUILD may be one for another machine (tools/aarch64.sh).

--cuda: with the CUDA kernels of the build, in lib/ftengine of what it is installed into, where program and library look for them. Linked by nvcc they need
glibc 2.35; zig links them with its own C++ library. A wheel that would have more than 20 MB (PyPI asks for small ones, and most who install have no GPU) becomes two:
ftengine_cuda has the kernels, and ftengine an extra of that name, so that pip install "ftengine[cuda]" takes both. Prints a path a line, that of ftengine first.
"""

import argparse
import base64
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
GLIBC = "2.28"  # for zig
CUDA = "libftengine_cuda.so"
LARGEST = 20_000_000  # bytes of a wheel; of one without CUDA kernels a test wants less than 15 million
BUNDLED = {"libjpeg.so.62", "libjpeg.so.8", "libpng16.so.16"}
DATE = (1980, 1, 1, 0, 0, 0)  # the same bytes from the same build
PACKAGES = ("libjansson-dev", "libinih-dev", "libpcre2-dev", "libssl-dev", "zlib1g-dev", "libzstd-dev", "libsqlite3-dev",
            "libjpeg62-turbo-dev", "libpng-dev", "libwebp-dev")
METADATA = """\
Metadata-Version: 2.1
Name: ftengine
Version: {version}
Summary: Fine-tunes BERT-style transformers and searches their hyper-parameters: a program, a C library and a Python module, without a framework
License: Apache-2.0
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Typing :: Typed
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Provides-Extra: sklearn
Requires-Dist: scikit-learn>=1.6; extra == "sklearn"
Provides-Extra: optuna
Requires-Dist: optuna>=4; extra == "optuna"
{cuda}Description-Content-Type: text/markdown

"""
CUDA_EXTRA = """\
Provides-Extra: cuda
Requires-Dist: ftengine-cuda=={version}; extra == "cuda"
"""
CUDA_METADATA = """\
Metadata-Version: 2.1
Name: ftengine-cuda
Version: {version}
Summary: The CUDA kernels of ftengine
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: ftengine=={version}
Description-Content-Type: text/markdown

The CUDA kernels that ftengine looks for beside itself. `pip install "ftengine[cuda]"` installs both.
"""


def run(*words):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"wheel.py: {shlex.join(map(str, words))}\n{done.stderr[-3000:]}")
    return done.stdout


def machine_of(path):
    """x86_64 or aarch64."""
    return {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}[re.search(r"Machine: +(.*)", run("readelf", "-h", path))[1].strip()]


def tool(name, machine):
    """strip and the like, for that machine."""
    return name if machine == os.uname().machine else f"{machine}-linux-gnu-{name}"


def link_words(build, target, name):
    """The objects, archives and libraries from which the build links a target, as absolute paths."""
    lines = run("ninja", "-C", build, "-t", "commands", target).splitlines()
    line = next(line for line in reversed(lines) if f" -o {name}" in line or f" -o {os.path.basename(name)}." in line)
    return [word if os.path.isabs(word) else str(build / word) for word in shlex.split(line) if re.search(r"\.(o|a|so)$", word)]


# Debian's archives are made for programs: the one thing in them that a shared library cannot have is the direct access to the C library's stderr.
STDERR = """
#include <stdio.h>
FILE *ft_stderr_of_archives;
__attribute__((constructor)) static void set(void) { ft_stderr_of_archives = stderr; }
"""


def archives_for_library(words, work, machine):
    """The words with an archive for every shared library, and what these need."""
    compiler = tool("gcc", machine)
    (work / "stderr.c").write_text(STDERR)
    run(compiler, "-O2", "-fPIC", "-c", work / "stderr.c", "-o", work / "stderr.o")
    for word in words:
        if not word.endswith(".so"):
            yield word
            continue
        archive, copy = word[:-3] + ".a", work / (Path(word).stem + ".a")
        if not os.path.exists(archive):
            sys.exit(f"wheel.py: there is no archive {archive}")
        run(tool("objcopy", machine), "--redefine-sym", "stderr=ft_stderr_of_archives", archive, copy)
        yield copy
    yield work / "stderr.o"


def link(zig, build, out, machine):
    """The program and the library, linked by zig for GLIBC from the objects and archives of the build. The words are those of the build."""
    cc = [*shlex.split(zig), "cc", "-target", f"{machine}-linux-gnu.{GLIBC}"]
    libgcc = run(tool("gcc", machine), "-print-libgcc-file-name").strip()
    parts = out / "parts"
    parts.mkdir()
    for target, name in (("ftengine_dist", "dist/ftengine"), ("ftengine_shared", "libftengine.so")):
        words, flags = link_words(build, target, name), []
        if name.endswith(".so"):
            words = archives_for_library(words, parts, machine)
            flags = ["-shared", "-Wl,-soname,libftengine.so.0", f"-Wl,--version-script={SOURCE}/library/ftengine.map", "-Wl,-z,defs"]
        run(*cc, *flags, "-o", out / os.path.basename(name), *words, libgcc, "-lm", "-ldl", "-lpthread")
    shutil.rmtree(parts)


def cuda_objects(build):
    """The objects of the CUDA kernels, and the archive of NVIDIA's run-time library that nvcc links them with."""
    line = next(line for line in reversed(run("ninja", "-C", build, "-t", "commands", CUDA).splitlines()) if "-cudart=static" in line)
    words = shlex.split(line)
    nvcc = next(word for word in words if os.path.basename(word) == "nvcc")
    runtime = Path(os.path.realpath(nvcc)).parent.parent / "lib64/libcudart_static.a"
    return [word if os.path.isabs(word) else str(build / word) for word in words if word.endswith(".o")] + [runtime]


def take_cuda(zig, build, out, machine):
    """The library of the CUDA kernels, in `out`."""
    built = build / CUDA
    if not built.exists():
        sys.exit(f"wheel.py: {build} has no CUDA kernels: there was no nvcc, or FT_CUDA=OFF")
    if not zig:
        shutil.copy(built, out / CUDA)
        return
    hidden = out / "cuda.map"  # zig's C++ library is for these kernels alone
    hidden.write_text("{ global: ft_cuda_module*; local: *; };\n")
    run(*shlex.split(zig), "c++", "-target", f"{machine}-linux-gnu.{GLIBC}", "-shared", f"-Wl,--version-script={hidden}", "-Wl,-z,defs", "-o", out / CUDA, *cuda_objects(build),
        "-lm", "-ldl", "-lpthread", "-lrt")  # fmt: skip
    hidden.unlink()


def glibc_of(path):
    """The newest GLIBC_x.y that a file needs."""
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", run("readelf", "-V", "-W", path))
    return max(((int(a), int(b)) for a, b in versions), default=(2, 5))


def needed(path):
    names = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", "-W", path))
    return [name for name in names if not re.match(r"(libc|libm|libpthread|libdl|librt|ld-linux-.*)\.so", name)]


def bundle(build, library, machine):
    """Copies what `library` needs beside the C library into its folder, where its run path looks; libz is part of every manylinux."""
    found = {Path(os.path.realpath(word)).parent for word in link_words(build, "ftengine_shared", "libftengine.so") if word.endswith(".so")}
    for name in [n for n in needed(library) if n in BUNDLED]:
        path = next((folder / name for folder in found if (folder / name).exists()), None)
        if path is None:
            sys.exit(f"wheel.py: {name} was not found in {', '.join(map(str, found))}")
        shutil.copy(path, library.parent / name)
        run(tool("strip", machine), "--strip-unneeded", library.parent / name)
        yield library.parent / name


def licences(info):
    yield f"{info}/licenses/LICENSE", SOURCE / "LICENSE", False
    yield f"{info}/licenses/NOTICE", SOURCE / "NOTICE", False


def files_of(out, version, with_cuda, extra):
    """(place in the wheel, path or bytes, executable); extra: the kernels are another wheel's."""
    info = f"ftengine-{version}.dist-info"
    yield f"ftengine-{version}.data/scripts/ftengine", out / "ftengine", True
    for path in sorted(out.glob("lib*.so*")):
        if path.name != CUDA:
            yield f"ftengine/{path.name}", path, True
        elif with_cuda:
            yield f"ftengine-{version}.data/data/lib/ftengine/{CUDA}", path, True
    for path in sorted((SOURCE / "python/ftengine").iterdir()):
        if path.suffix == ".py" or path.name == "py.typed":
            yield f"ftengine/{path.name}", path, False
    yield from licences(info)
    for package in PACKAGES:  # what is linked in
        copyright_ = Path("/usr/share/doc") / package / "copyright"
        if not copyright_.exists():
            sys.exit(f"wheel.py: there is no licence of {package} in /usr/share/doc")
        yield f"{info}/licenses/{package}", copyright_, False
    cuda = CUDA_EXTRA.format(version=version) if extra else ""
    yield f"{info}/METADATA", (METADATA.format(version=version, cuda=cuda) + (SOURCE / "python/README.md").read_text()).encode(), False


def cuda_files(out, version):
    """The same of the wheel of the kernels alone."""
    info = f"ftengine_cuda-{version}.dist-info"
    yield f"ftengine_cuda-{version}.data/data/lib/ftengine/{CUDA}", out / CUDA, True
    yield from licences(info)
    yield f"{info}/METADATA", CUDA_METADATA.format(version=version).encode(), False


def write(out, name, version, binaries, machine, files):
    """The wheel of these files; `binaries` say which C library it needs."""
    major, minor = max(glibc_of(path) for path in binaries)
    tag = f"py3-none-manylinux_{major}_{minor}_{machine}"
    wheel = out / f"{name}-{version}-{tag}.whl"
    info, record = f"{name}-{version}.dist-info", []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(place, data, executable=False):
            entry = zipfile.ZipInfo(place, DATE)
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=9)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{place},sha256={digest},{len(data)}")

        for place, what, executable in files:
            add(place, what if isinstance(what, bytes) else what.read_bytes(), executable)
        add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: ftengine tools/wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
        record.append(f"{info}/RECORD,,")
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD", DATE), "\n".join(record) + "\n")
    return wheel


def size_of(wheel):
    return wheel.stat().st_size


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=lambda p: Path(p).resolve())
    parser.add_argument("out", type=lambda p: Path(p).resolve())
    parser.add_argument("--zig", help="the command of zig, as 'python3 -m ziglang'")
    parser.add_argument("--cuda", action="store_true", help="with the CUDA kernels of the build")
    a = parser.parse_args()
    version = re.search(r"VERSION (\S+) ", (SOURCE / "CMakeLists.txt").read_text())[1]
    work = a.out / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    machine = machine_of(a.build / "dist/ftengine")
    if a.zig:
        link(a.zig, a.build, work, machine)
    else:
        shutil.copy(a.build / "dist/ftengine", work / "ftengine")
        shutil.copy(a.build / "libftengine.so", work / "libftengine.so")
    binaries = [work / "ftengine", work / "libftengine.so"]
    if a.cuda:
        take_cuda(a.zig, a.build, work, machine)
        binaries.append(work / CUDA)
    for path in binaries:
        run(tool("strip", machine), "--strip-unneeded", path)
    if not a.zig:
        binaries += bundle(a.build, work / "libftengine.so", machine)
    for path in binaries:
        lacking = [name for name in needed(path) if name not in BUNDLED and name != "libz.so.1"]
        if lacking:
            sys.exit(f"wheel.py: {path.name} needs {', '.join(lacking)}, which a machine may lack")
    for old in [*a.out.glob("ftengine-*.whl"), *a.out.glob("ftengine_cuda-*.whl")]:
        old.unlink()
    wheels = [write(a.out, "ftengine", version, binaries, machine, files_of(work, version, a.cuda, False))]
    if a.cuda and size_of(wheels[0]) > LARGEST:
        wheels[0].unlink()
        others = [path for path in binaries if path.name != CUDA]
        wheels = [write(a.out, "ftengine", version, others, machine, files_of(work, version, False, True)),
                  write(a.out, "ftengine_cuda", version, [work / CUDA], machine, cuda_files(work, version))]  # fmt: skip
    shutil.rmtree(work)
    for wheel in wheels:
        if size_of(wheel) > LARGEST:
            sys.exit(f"wheel.py: {wheel} has {size_of(wheel)} bytes, and {LARGEST} is the most that it is to have")
        print(wheel)


if __name__ == "__main__":
    main()
