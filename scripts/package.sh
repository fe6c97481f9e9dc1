#!/usr/bin/env bash
# Builds the wheel and the source distribution into dist/, installs the wheel into a clean environment in a
# directory of its own, and tries it there. EXTRAS says with which extras; all of them unless told.
set -euo pipefail
cd "$(dirname "$0")/.."
extras=${EXTRAS:-spark,kafka,federation,dashboard,metrics,experiments}
rm -rf dist
.venv/bin/python -m hatchling build -t sdist -t wheel

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/unpacked" && tar -xzf dist/penstock-*.tar.gz -C "$place/unpacked" --strip-components 1
echo "package: a wheel from the source distribution"
(cd "$place/unpacked" && "$OLDPWD/.venv/bin/python" -m hatchling build -t wheel -d "$place/again")
cmp <(unzip -Z1 dist/*.whl | sort) <(unzip -Z1 "$place"/again/*.whl | sort)

echo "package: the wheel in a clean environment, with $extras"
.venv/bin/python -m venv "$place/venv"
sed -n 's/^\([A-Za-z0-9._-]*==.*[^ \\]\) *\\*$/\1/p' requirements.lock > "$place/constraints.txt"
"$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    --constraint "$place/constraints.txt" "$(echo dist/*.whl)[$extras]"
"$place/venv/bin/python" -m pip check

cd "$place"
try() { echo "package: $*"; env -u PYTHONPATH -u VIRTUAL_ENV PATH="$place/venv/bin:$PATH" "$@"; }
try penstock --version
try penstock doctor --all
try python -c 'import importlib.resources as r; assert (r.files("penstock") / "spark" / "penstock.jar").is_file()'
try python -c 'import importlib.resources as r; assert (r.files("penstock") / "py.typed").is_file()'
echo '{"capacity": 10, "queries": [{"id": "q", "strata": [{"id": "s", "tuples": 20, "sic": 0.05}]}]}' > plan.json
try penstock plan plan.json
case ",$extras," in *,spark,*) try penstock check "$OLDPWD/examples/avg.yaml" ;; esac
echo "package: good"
