#!/usr/bin/env bash
# Resolves every dependency, for every platform, into requirements.lock.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/python -m pip install --quiet uv
.venv/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
    --python-version 3.11 --all-extras --group dev pyproject.toml -o requirements.lock
