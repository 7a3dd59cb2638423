#!/usr/bin/env bash
# Runs every check of the project: lint, format, types, layers, tests. Arguments go to pytest.
#
#   packaging/test.sh [PYTEST ARGUMENT...]
#
# KBSYNC_VENV places the environment, KBSYNC_TEST_CORPUS is a folder of real documents that some tests want.
set -euo pipefail

unset CDPATH # else `cd` may go elsewhere, and says where
CHECKOUT=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=packaging/environment.sh
. "$CHECKOUT/packaging/environment.sh"

case ${1:-} in
    -h | --help)
        sed -n 's/^# \{0,1\}//; 2,/^set /{/^set /!p;}' "${BASH_SOURCE[0]}"
        exit 0
        ;;
esac

# Runs one step, says how long it took, and ends the script with the step's exit code where that is not 0.
step() {
    local name=$1 begun=$SECONDS code=0
    shift
    printf '\n== %s\n' "$name"
    "$@" || code=$?
    if [ "$code" -ne 0 ]; then
        printf '== %s: FAILED with exit code %s after %s s\n' "$name" "$code" "$((SECONDS - begun))"
        exit "$code"
    fi
    printf '== %s: passed in %s s\n' "$name" "$((SECONDS - begun))"
}

step environment make_environment test
cd "$CHECKOUT"
step lint "$VENV/bin/python" -m ruff check .
step format "$VENV/bin/python" -m ruff format --check .
step types "$VENV/bin/python" -m mypy
step layers "$VENV/bin/python" "$VENV/bin/lint-imports"
# Two processes, on any machine: each may come to hold 4 GB of models. The arguments may name another number, 0 for none.
step tests "$VENV/bin/python" -m pytest -n 2 "$@"
printf '\nEverything passed in %s s.\n' "$SECONDS"
