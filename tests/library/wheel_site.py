"""What the tests of this folder use: the wheel of this build, unpacked beside it, so that what is tested is what people install. Made anew where something of it is
newer. A build without the program that packages have (a sanitizer's; third-party libraries without archives) has none: then the source tree and the build's library."""

import fcntl
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

SOURCE, BUILD = Path(os.environ["SOURCE_DIR"]), Path(os.environ["BUILD_DIR"])


def _unpacked() -> Path:
    parts = [BUILD / "dist/ftengine", BUILD / "libftengine.so", SOURCE / "tools/wheel.py", *sorted((SOURCE / "python/ftengine").glob("*.py"))]
    stamp = " ".join(f"{part.name}:{part.stat().st_mtime_ns}" for part in parts)
    folder = BUILD / "tests/wheel"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:  # tests run beside each other
        fcntl.flock(lock, fcntl.LOCK_EX)
        said, site = folder / "stamp", folder / "site"
        if not said.exists() or said.read_text(encoding="utf-8") != stamp:
            said.unlink(missing_ok=True)
            made = subprocess.run([sys.executable, str(parts[2]), str(BUILD), str(folder / "made")], capture_output=True, text=True, check=False)
            if made.returncode:
                sys.exit(f"no wheel: {made.stderr}")
            shutil.rmtree(site, ignore_errors=True)
            zipfile.ZipFile(made.stdout.strip()).extractall(site)
            next(site.glob("*.data/scripts/ftengine")).chmod(0o755)
            said.write_text(stamp, encoding="utf-8")
    return site


def use() -> str:
    """`import ftengine` finds it from now on, here and in processes that are started. The program, which it has too."""
    if (BUILD / "dist/ftengine").exists():
        place = _unpacked()
        os.environ.pop("FTENGINE_LIBRARY", None)
        os.environ["FTENGINE_PROGRAM"] = str(next(place.glob("*.data/scripts/ftengine")))
    else:
        place = SOURCE / "python"
        os.environ["FTENGINE_LIBRARY"] = str(BUILD / "libftengine.so")
        os.environ["FTENGINE_PROGRAM"] = os.environ["FTENGINE"]
    os.environ["PYTHONPATH"] = str(place)
    sys.path.insert(0, str(place))
    return os.environ["FTENGINE_PROGRAM"]
