.PHONY: help setup quick test oldest lint package docs demo lock clean

help:  ## what there is
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 10

setup: .venv/ready  ## the environment in .venv, with the penstock command in it

.venv/ready: requirements.lock pyproject.toml hatch_build.py scripts/setup.sh $(wildcard jvm/io/penstock/*.java)
	@scripts/setup.sh

lint: setup  ## formatting, lint and types
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

quick: lint  ## the inner loop: all that needs no Spark, with fewer examples a property
	.venv/bin/pytest -m "not spark and not alone" -n 2 --dist worksteal --hypothesis-profile=quick

# Three run side by side, which makes a machine so busy that now and then one of hundreds is late. What
# fails there is run once more with nothing beside it, is named in any case, and must pass then.
test: lint  ## everything that has to hold
	.venv/bin/pytest -m alone
	.venv/bin/pytest -m "not alone" -n 3 --dist worksteal || { [ $$? -eq 1 ] && \
	.venv/bin/pytest -m "not alone" --last-failed --last-failed-no-failures none; }

oldest:  ## the Spark tests on the oldest Spark that is supported
	scripts/oldest.sh

package: setup  ## the wheel and the source distribution, tried in a clean environment
	scripts/package.sh

docs:  ## the documentation site in build/site; a link that leads nowhere stops it
	scripts/docs.sh

demo: setup  ## an overloaded stream without and with Penstock, in under three minutes
	.venv/bin/penstock demo

lock: setup  ## resolve the dependencies again
	scripts/lock.sh

clean:  ## forget the environment and every cache
	rm -rf .venv .venv-oldest .venv-docs dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis artifacts
