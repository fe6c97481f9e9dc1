"""``penstock simulate``: runs a scenario, shows how far it is, prints what came out."""

import json
import time
from pathlib import Path

from penstock.cli.terminal import progress_bar
from penstock.errors import PenstockError
from penstock.plots import Plot, draw
from penstock.sim.outcome import SimulationOutcome
from penstock.sim.run_plots import plots_of_answer, plots_of_run
from penstock.sim.scenario import load
from penstock.sim.simulation import Simulation
from penstock.sim.what_if import Answer, Question, ask


def simulate(path: Path, as_json: bool, plots: Path | None) -> None:
    """Runs a scenario and prints what came out."""
    scenario = load(path)
    started = time.perf_counter()
    with progress_bar() as say:
        outcome = Simulation(scenario).run(lambda done: say("simulating", done))
    wall = time.perf_counter() - started
    _write_plots(plots_of_run(outcome), plots)
    if as_json:
        print(json.dumps({**outcome.json(), "wall_seconds": round(wall, 3)}, indent=1))
    else:
        print(summary(outcome, wall))


def what_if(
    path: Path, question: str, at_least: float | None, as_json: bool, plots: Path | None
) -> None:
    """Sweeps a dial of a scenario and prints the answer."""
    asked, scenario = Question.parse(question), load(path)
    with progress_bar() as say:
        answer = ask(scenario, asked, at_least, say)
    _write_plots(plots_of_answer(answer), plots)
    print(json.dumps(answer.json(), indent=1) if as_json else reply(answer))


def summary(outcome: SimulationOutcome, wall: float) -> str:
    """Returns a page that says how complete the results of all queries are."""
    scenario, work, spread = outcome.scenario, outcome.deployment.work, outcome.spread
    lines = [
        f"{len(work.ids)} queries in {work.query.size} fragments on {outcome.deployment.sites} "
        f"sites, {scenario.duration:g} s under {scenario.policy} ({wall:.1f} s of yours)",
        "",
        f"  mean SIC        {spread.mean:.3f}",
        f"  Jain's index    {spread.jain:.3f}",
        f"  std, IQR        {spread.std:.3f}, {spread.iqr:.3f}",
        f"  Q95 - Q05       {spread.q95_q05:.3f}",
        f"  utilisation     {outcome.utilisation.mean():.0%} "
        f"({outcome.utilisation.min():.0%} to {outcome.utilisation.max():.0%} by site)",
        f"  shed            {outcome.tuples['shed'] / max(outcome.tuples['arrived'], 1):.0%} of "
        f"{outcome.tuples['arrived']:,} tuples",
        "",
        "  kind       queries   mean SIC   least   most",
    ]
    for kind in dict.fromkeys(work.kinds):
        sic = [s for s, k in zip(outcome.sic.tolist(), work.kinds, strict=True) if k == kind]
        sic = [s for s in sic if s == s]  # one that never lived long enough is not a number
        if sic:
            lines.append(
                f"  {kind:<9}{len(sic):>9}{sum(sic) / len(sic):>11.3f}{min(sic):>8.3f}"
                f"{max(sic):>7.3f}"
            )
    return "\n".join(lines)


def reply(answer: Answer) -> str:
    """Returns the sweep as a table, and the planner's answers in words."""
    dial = answer.question.dial
    lines = [f"  {dial:>10}   mean SIC     Jain   utilisation"]
    lines += [
        f"  {p.at:>10g}{p.mean_sic:>11.3f}{p.jain:>9.3f}{p.utilisation:>13.0%}"
        for p in answer.points
    ]
    if answer.at_least is not None:
        lines += ["", _verdict(answer)]
    if dial == "queries":
        best, gain = answer.best()
        tipping = answer.tipping_point()
        lines += [
            f"From {answer.points[0].at:g} queries on, a query's cost falls furthest ahead of its "
            f"quality at {best:g} queries (by {gain:.0%}).",
            "At every point more queries pay."
            if tipping is None
            else f"One more query stops paying at about {tipping:g} queries.",
        ]
    return "\n".join(lines)


def _verdict(answer: Answer) -> str:
    want = f"a mean SIC of at least {answer.at_least:g}"
    if answer.limit is None:
        return f"No point of the sweep reaches {want}."
    if answer.everywhere:
        return f"All of the sweep has {want}: sweep further to find where that ends."
    limit = f"{answer.limit:g}"
    return {
        "queries": f"Up to {limit} queries have {want}.",
        "sites": f"{limit} sites are needed for {want}.",
        "capacity": f"A capacity of {limit} tuples/s at each site is needed for {want}.",
        "rate": f"Sources may send up to {limit} tuples/s for {want}.",
    }[answer.question.dial]


def _write_plots(plots: list[Plot], directory: Path | None) -> None:
    if directory is None:
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PenstockError(
            f"--plot must be a directory, such as plots/; got {str(directory)!r}: {error.strerror}"
        ) from None
    for plot in plots:
        draw(plot, directory / f"{plot.name}.svg")
