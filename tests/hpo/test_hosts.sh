#!/usr/bin/env bash
# benchmarks/search/hosts.py: 1,000 tiny trainings by three hosts on a PostgreSQL of its own, while processes are killed, the server is
# stopped and started, and hosts are cut off. Needs root and network namespaces.
# ctest: label=full_size timeout=3600 sanitize=leave
exec python3 "${SOURCE_DIR:?is set by ctest}/benchmarks/search/hosts.py" --ftengine "$FTENGINE" --seed "${KILL_SEED:-$(($(date +%s) % 100000))}"
