#!/usr/bin/env bash
# optuna_dashboard.sh - Optuna's dashboard for tests/hpo/test_dashboard.sh, which opens a running study in it: from PyPI, with what it
# needs in an environment of its own, third_party/optuna-dashboard (a hundred megabytes). With it there it does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

to=third_party/optuna-dashboard
[ ! -x "$to/bin/optuna-dashboard" ] || exit 0
rm -rf "$to"
trap 'rm -rf "$to"' EXIT # an environment knows its own path, so it is made in place: whole or not at all
python3 -m venv "$to"
"$to/bin/python" -m pip install --quiet --disable-pip-version-check optuna-dashboard==0.21.0 optuna==5.0.0
"$to/bin/optuna-dashboard" --version >&2
trap - EXIT
