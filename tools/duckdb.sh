#!/usr/bin/env bash
# duckdb.sh - DuckDB's library for Parquet files, into third_party/duckdb: FTENGINE_DUCKDB=third_party/duckdb/_duckdb...so. No distribution has a package of it; PyPI's package
# duckdb for this machine's Python has the same functions, and needs libpython beside it. With it there it does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

to=third_party/duckdb
! ls "$to"/*duckdb*.so >/dev/null 2>&1 || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$work" duckdb==2.0.1
python3 -m zipfile -e "$work"/duckdb-*.whl "$work/unpacked"
mkdir -p "$to"
mv "$work"/unpacked/_duckdb.*.so "$to/"
python=$(python3 -c 'import sys; print(f"libpython3.{sys.version_info[1]}.so.1.0")')
ldconfig -p | grep -qF "$python" || echo "duckdb.sh: it needs $python, too: apt-get install libpython3.$(python3 -c 'import sys; print(sys.version_info[1])')" >&2
ls "$to"/*.so
