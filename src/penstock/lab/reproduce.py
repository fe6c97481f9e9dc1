"""``penstock reproduce``: runs experiments, shows how far they are, and prints their tables."""

from pathlib import Path

from penstock.cli.terminal import progress_bar
from penstock.lab.experiments import available, get
from penstock.lab.result import page, publish


def listing() -> str:
    """Returns the list of experiments."""
    return "\n".join(f"{name:<18}{kind.about}" for name, kind in sorted(available().items()))


def reproduce(names: list[str], effort: float, directory: Path | None) -> bool:
    """Runs them one after another; whether everything that they claim was seen to hold."""
    good = True
    wanted = dict.fromkeys(one for name in names for one in family(name))
    for experiment in [get(name) for name in wanted]:  # a wrong name is told before anything runs
        with progress_bar(experiment.name) as say:
            result = experiment.run(effort, say)
        print(page(result, experiment.name, effort), flush=True)
        if directory is not None:
            publish(result, experiment.name, directory, effort)
        good = good and all(result.holds.values())
    return good


def family(name: str) -> list[str]:
    """Returns all experiments whose names begin so: ``themis`` is all of THEMIS."""
    found = sorted(available())
    return [name] if name in found else [n for n in found if n.startswith(f"{name}-")] or [name]
