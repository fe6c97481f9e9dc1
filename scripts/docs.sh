#!/usr/bin/env bash
# Builds the documentation site into build/site, in an environment of its own; a link that leads nowhere stops it.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -x .venv-docs/bin/mkdocs ]; then
    "${PYTHON:-python3}" -m venv .venv-docs
    .venv-docs/bin/python - <<'END' | xargs .venv-docs/bin/python -m pip install --quiet --disable-pip-version-check
import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["docs"], sep="\n")
END
fi

pages=build/pages
rm -rf "$pages" build/site
mkdir -p "$pages/reference"
cp -r docs/. "$pages"
# Pages of the repository's top, whose links lead into docs/.
top() { sed -E 's#\]\(docs/#](#g; s#\]\(LICENSE\)#](license.md)#g; s#\]\(CONTRIBUTING.md#](contributing.md#g; s#\]\(CHANGELOG.md#](changelog.md#g; s#(src|srcset)="docs/#\1="#g' "$1" > "$pages/$2"; }
top README.md index.md
top CONTRIBUTING.md contributing.md
top CHANGELOG.md changelog.md
{ echo '# Licence'; echo; echo '```'; cat LICENSE; echo '```'; } > "$pages/license.md"
sed -i -E 's#\]\(\.\./examples[^)]*\)#](examples.md)#g; s#\]\(results/?\)#](results.md)#g; s#\]\(\.\./(README)\.md#](index.md#g; s#\]\(\.\./CONTRIBUTING\.md#](contributing.md#g; s#\]\(\.\./CHANGELOG\.md#](changelog.md#g' "$pages"/*.md
{
    echo '# Examples'
    for file in examples/*.py examples/*.yaml examples/*/*.yaml; do
        printf '\n## %s\n\n```%s\n' "$file" "${file##*.}"
        cat "$file"
        echo '```'
    done
} > "$pages/examples.md"

reference() { { echo "# $2"; shift 2; for name; do printf '\n::: %s\n' "$name"; done; } > "$pages/reference/$1.md"; }
reference site "Site and gates" penstock.spark.site.Site penstock.core.settings.QueryTerms penstock.windows.concept.Concept penstock.errors.PenstockError
reference functions "Functions" penstock.functions
reference reports "Reports" penstock.spark.site_report
reference policies "Policies" penstock.policy penstock.core.demand
reference metrics "Metrics" penstock.metrics.site_meter
reference testing "Testing" penstock.testing

.venv-docs/bin/mkdocs build --strict 2> build/docs.log || { cat build/docs.log >&2; exit 1; }
echo "docs: build/site/index.html"
