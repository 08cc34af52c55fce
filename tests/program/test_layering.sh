#!/usr/bin/env bash
# The arrows of the house point down, and nobody above kernels/ asks which back end it runs on: planning is the same code.
cd "${SOURCE_DIR:?is set by ctest}" || exit 1
status=0
forbid() { # forbid WHAT PATTERN DIR...
    local what=$1 pattern=$2
    shift 2
    if grep -rnE --include=*.c --include=*.h -- "$pattern" "$@"; then
        echo "FAILED: $what" >&2
        status=1
    fi
}
forbid "a branch on the back end outside kernels/" 'FT_BACKEND_|(\.|->)backend\b' engine hpo ftengine.c
forbid "a branch on the device's name" 'strn?cmp\([^)]*device->name' engine hpo ftengine.c
forbid "kernels/ includes what lies above it" '#include "(engine|hpo)/' kernels
forbid "engine/ includes what lies above it" '#include "hpo/' engine
forbid "a back end's own header outside kernels/" '#include "kernels/(cpu|cuda|plan)/' engine hpo ftengine.c
forbid "an include of tests/ outside tests/" '#include "tests/' kernels engine hpo ftengine.c
forbid "a switch on the task outside engine/tasks" 'FT_TASK_(SINGLE|MULTI|REGRESSION)' engine/[!t]* engine/text engine/train hpo ftengine.c
forbid "engine/tasks includes a model, a device or a trainer" \
    '#include "(engine/(model|memory|train/trainer)|kernels/(backend|devices))' engine/tasks
# The search above finds what it looks for.
grep -rqE 'FT_BACKEND_' kernels || { echo "FAILED: the pattern finds nothing in kernels/ either" >&2; status=1; }
exit $status
