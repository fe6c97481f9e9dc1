#!/usr/bin/env bash
# Runs the Spark tests on the oldest Spark that pyproject.toml allows, in an environment of its own; and the
# tests on Delta, which has no release for the newest Spark.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/.*"pyspark>=\([0-9.]*\),.*/\1/p' pyproject.toml | head -1)
[ -x .venv-oldest/bin/python ] || "${PYTHON:-python3}" -m venv .venv-oldest
pip() { .venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check "$@"; }
pip "pyspark==$version" hatchling editables
pip --no-build-isolation -e '.[spark,connect,experiments,federation]' "pyspark==$version" \
    pytest pytest-timeout pytest-xdist hypothesis
.venv-oldest/bin/python -c 'import pyspark; print("Spark", pyspark.__version__)'
test() { .venv-oldest/bin/python -m pytest "$@"; }
test -m alone tests/spark
test -m "not alone" -n 2 --dist worksteal tests/spark
test tests/oldest
