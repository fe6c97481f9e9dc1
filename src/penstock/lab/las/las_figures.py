"""LAS, section V-B: figures 4 to 9, and the numeric example of theorem 4.2."""

from typing import ClassVar

from penstock.lab.las import claims, phases, sweeps, taken_apart, theorem
from penstock.lab.las.measure import FigureScale
from penstock.lab.result import Result, Say


class LoadAwareShedding:
    """Reproduces the figures of LAS, with Dearest First beside it."""

    name: ClassVar[str] = "las"
    about: ClassVar[str] = "load that depends on the content: figures 4 to 9, theorem 4.2"

    def run(self, effort: float, say: Say) -> Result:
        """Simulates all figures."""
        scale = FigureScale.of(effort)
        result = Result(
            title="Load-aware shedding",
            paper="LAS, section V-B, figures 4 to 9, and theorem 4.2",
        )
        say("the default setting", 0.0)
        claims.add(result, scale)
        sweeps.add(result, scale, lambda doing, done: say(doing, 0.1 + 0.7 * done))
        say("figure 5 taken apart", 0.8)
        taken_apart.add(result, scale)
        say("figure 9", 0.85)
        phases.add(result, scale)
        say("theorem 4.2", 0.98)
        theorem.add(result, scale)
        result.notes += NOTES
        say("", 1.0)
        return result


NOTES = [
    "Figures 4 to 8 begin warm, with sketches of 2,048 tuples: from a cold start LAS sheds nothing "
    "until the first matrices come, and the queue of that time exceeds any threshold for long "
    "afterwards, which the published figures do not show. Figure 9 begins cold.",
    "Under-provisioning by u means that tuples come (1 - u) · W̄ after each other: only then does "
    "dropping a share u leave just what can be done, and Base Line's queue a random walk, as the "
    "text describes it.",
    "CHECK tries the tuple in the average before it decides, as the text says. Listing III.2 looks "
    "at the average without it, which a drop does not change: it would drop for ever.",
    "Idle time is part of C and of Ĉ; one synchronisation is under way at a time; a cell of F that "
    "is 0 costs the mean.",
    "The text on figure 4 says that Full Knowledge 'drops no more tuples than the competing "
    "solutions' and that its latency is much lower than the threshold. Here it drops slightly more "
    "than Base Line (it has to hold the threshold, Base Line does not), and its average lies at "
    "the threshold, which is what AVG(τ) asks for.",
    "Straw-Man drops as many tuples as Base Line, as the text says, and for the same reason fails: "
    "its estimate of the whole is right and that of the moment is not.",
    "Figure 5: LAS' average hardly follows τ. It is above small thresholds and at half of a large "
    "one, since CHECK holds the average of foreseen waits, and these differ from the real ones by "
    "how far Ĉ has drifted since the last synchronisation, thousands of tuples ago. The drift does "
    "not depend on τ. Where Ĉ is set right after every tuple, the average is at τ; the table shows "
    "what fewer corrections cost.",
    "Figure 8: the text says that with ε ≤ 0.1 LAS' latencies are always at or below τ. "
    "Here they rise when ε falls, far above it below 0.05: what holds the threshold is the factor "
    "1 + ε, which makes up for the drift of Ĉ between synchronisations thousands of tuples apart, "
    "and not the precision of the sketches.",
    "Dearest First is judged by a run's average. In the first few hundred tuples its running "
    "average may lie above τ (`highest_running_average` in the JSON), where Full Knowledge's "
    "never does. It does not quite hold thresholds far below the cost of one tuple (figure 5, τ ≤ "
    "0.4). Where τ is below half of what a tuple costs on average, and where all items are "
    "equally frequent (figure 7, α = 0), so that 55 columns tell nothing of 4,096 items, it drops "
    "more than Full Knowledge.",
    "AVG(τ) over the whole stream saves up: after a phase without load (E) Full Knowledge, too, "
    "lets a queue of ten times the threshold build up (first window of F), within the constraint.",
    "Figure 9, phase F: LAS does not 'quickly update its data structures'. In F the matrices are "
    "stable only after the queue is seconds long, the skew is corrected once in thousands of "
    "tuples, and each correction is as late as the queue is long. In G it sheds most of the "
    "stream, for costs that have gone down again. Dearest First is back within 8,000 tuples.",
    "Theorem 4.2's bound is on the smallest ratio over the rows; the algorithm takes the ratio of "
    "the row with the smallest count, of which it says nothing. And where all items are equally "
    "frequent, the expected estimate is nearly the mean for every item: that is the price of 55 "
    "columns for 4,096 items, and why LAS sheds more than Full Knowledge.",
]
