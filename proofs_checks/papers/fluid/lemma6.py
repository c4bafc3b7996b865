"""Lemma 6: WAIT's queue of a class, and a reflected walk in steps of the longest batch."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from bfio.wait.run import StageRun
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.fluid.equilibrium import stage_sum
from proofs_checks.papers.fluid.runs import Setting, reference
from proofs_checks.search import Domain, examine

CLAIMS = Claims()


#: Prompt, output and threshold of each class.
Kinds = tuple[tuple[int, int, int], ...]


def setting_of(data: Data) -> tuple[Setting, Kinds] | None:
    """Read a setting from plain data; None if the data are not a setting."""
    kinds = tuple((prompt, output, n) for prompt, output, n in data["classes"])
    times: list[list[int]] = data["arrivals"]
    if len(kinds) != len(times) or min(min(p, n) for p, _, n in kinds) < 1:
        return None
    lengths = tuple((prompt, output) for prompt, output, _ in kinds)
    if len(set(lengths)) < len(lengths) or min(o for _, o in lengths) < 1:
        return None
    if min(data["fixed"], data["per_token"]) < 1:
        return None
    requests = [(t, *kind) for row, kind in zip(times, lengths, strict=True) for t in row]
    if not requests or min(requests)[0] < 0:
        return None
    return Setting(lengths, tuple(sorted(requests)), data["fixed"], data["per_token"]), kinds


def longest_batch(setting: Setting, kinds: Kinds) -> int:
    """``ΔT(n)`` [clock units]."""
    full = sum(n * stage_sum(prompt, output) for prompt, output, n in kinds)
    return setting.fixed + setting.per_token * full


# A case is evaluated under several conventions in a row, so a small cache is enough.
@lru_cache(maxsize=64)
def _served(setting: Setting, kinds: Kinds) -> StageRun:
    duration = max(t for t, _, _ in setting.requests) + 20 * longest_batch(setting, kinds)
    return reference(setting.instance(), setting.wait([n for _, _, n in kinds]), duration)


def excess(
    setting: Setting, kinds: Kinds, *, leave_at_start: bool, base: int = 2, pace: int = 1
) -> tuple[int, int, int, int] | None:
    """Return the first time a queue exceeds its walk, as (class, time, W, W̃); None if never.

    The difference W̃ − W decreases at multiples of ΔT only, so only these times are checked.

    Parameters
    ----------
    setting, kinds
        Engine, arrivals, classes and thresholds.
    leave_at_start : bool
        Whether the n_j prompts of a batch leave the queue when it starts, or when it ends.
    base : int
        The walk is reflected at ``base·n_j``.
    pace : int
        The walk takes steps of ``ΔT/pace``, rounded up.
    """
    step = -(-longest_batch(setting, kinds) // pace)
    last = max(t for t, _, _ in setting.requests)
    run = _served(setting, kinds)
    for j, (prompt, output, n) in enumerate(kinds):
        arrivals = [t for t, *kind in setting.requests if kind == [prompt, output]]
        left = _departures(run, (prompt, output), leave_at_start=leave_at_start)
        walk = base * n
        for time in range(step, last + 12 * step, step):
            come = sum(time - step < t <= time for t in arrivals)
            if time == step:
                come += sum(t == 0 for t in arrivals)
            walk = max(base * n, walk + come - n)
            queue = sum(t <= time for t in arrivals) - sum(t <= time for t in left)
            if queue > walk:
                return j, time, queue, walk
    return None


def keeps_at_ends(setting: Setting, kinds: Kinds, *, since: bool = True) -> bool:
    """Whether W ≤ W̃ + arrivals since the walk's last step, at the end of every batch.

    No batch is running at these times, so it does not matter when its prompts leave the queue.
    """
    step, run = longest_batch(setting, kinds), _served(setting, kinds)
    for prompt, output, n in kinds:
        come = [t for t, *kind in setting.requests if kind == [prompt, output]]
        left = _departures(run, (prompt, output), leave_at_start=False)
        for end in run.batches.end.tolist():
            walk, last = 2 * n, -1
            for time in range(step, end + 1, step):
                walk = max(2 * n, walk + sum(last < t <= time for t in come) - n)
                last = time
            queue = sum(t <= end for t in come) - sum(t <= end for t in left)
            if queue > walk + since * sum(last < t <= end for t in come):
                return False
    return True


def has_ties(setting: Setting, kinds: Kinds) -> bool:
    """Whether an event coincides with a step of the walk, so that conventions matter."""
    step = longest_batch(setting, kinds)
    if any(t % step == 0 for t, _, _ in setting.requests):
        return True
    return bool((_served(setting, kinds).batches.end % step == 0).any())


def _departures(run: StageRun, kind: tuple[int, int], *, leave_at_start: bool) -> list[int]:
    events, instance = run.log.events(), run.instance
    mine = (events.stage == 0) & (instance.prompt[events.request] == kind[0])
    mine &= instance.output[events.request] == kind[1]
    times = run.batches.start if leave_at_start else run.batches.end
    departures: list[int] = times[events.batch[mine]].tolist()
    return departures


def verify(data: Data) -> str | None:
    """Confirm that a queue whose batches leave at their ends exceeds the walk."""
    read = setting_of(data)
    if read is None or has_ties(*read):
        return None
    if (first := excess(*read, leave_at_start=False)) is None:
        return None
    j, time, queue, walk = first
    return (
        f"ΔT = {longest_batch(*read)}; at time {time} class {j + 1} has W = {queue} > W̃ = {walk} "
        f"with 2·n_{j + 1} = {2 * read[1][j][2]}"
    )


#: Prompt and output of the two classes.
_LENGTHS = ((1, 1), (1, 2))


def _settings(context: Context) -> Iterator[tuple[Setting, Kinds]]:
    rng = context.rng
    for _ in range(context.choose(15, 200, 3000)):
        kinds: Kinds = tuple((*lengths, int(rng.integers(1, 4))) for lengths in _LENGTHS)
        fixed, per_token = int(rng.integers(2, 7)), 1
        length = longest_batch(Setting(_LENGTHS, (), fixed, per_token), kinds)
        times: list[tuple[int, int, int]] = []
        for prompt, output, n in kinds:
            alone = rng.integers(0, 3 * length, n).tolist()
            bunch = [int(rng.integers(0, 3 * length))] * int(rng.integers(0, 4 * n))
            times += [(t, prompt, output) for t in (*alone, *bunch)]
        yield Setting(_LENGTHS, tuple(sorted(times)), fixed, per_token), kinds
        yield _staggered(rng)


def _staggered(rng: np.random.Generator) -> tuple[Setting, Kinds]:
    """Draw a burst of class 2 just before a step of the walk, when almost n_2 prompts wait.

    A batch of class 1 is running then. Class 2 waits for two batches to end before its first
    prompts leave, and the walk takes another step in between.
    """
    n, fixed = int(rng.integers(2, 4)), int(rng.integers(16, 26))
    kinds: Kinds = ((*_LENGTHS[0], 1), (*_LENGTHS[1], n))
    step = longest_batch(Setting(_LENGTHS, (), fixed, 1), kinds)
    began = int(rng.integers(1, 3)) * step - int(rng.integers(2, 4))
    bunch = [began + 1] * int(rng.integers(n + 2, 3 * n + 1))
    times = [(began, *_LENGTHS[0]), *((t, *_LENGTHS[1]) for t in (*[1] * (n - 1), *bunch))]
    return Setting(_LENGTHS, tuple(sorted(times)), fixed, 1), kinds


def _data(case: tuple[Setting, Kinds]) -> Data:
    setting, kinds = case
    return {
        "classes": [list(kind) for kind in kinds],
        "arrivals": [
            [t for t, *lengths in setting.requests if lengths == list(kind[:2])] for kind in kinds
        ],
        "fixed": setting.fixed,
        "per_token": setting.per_token,
    }


@CLAIMS.result(
    "fluid.lemma6",
    Mutation("leaving at the end in the correction", start=(False, False)),
    Mutation("leaving at the start as printed", start=(True, True)),
    Mutation("a walk in half steps", pace=2),
    Mutation("what came since left out", since=False),
    defect=Defect.FORMULA,
    verify=verify,
)
def _check(
    context: Context, *, start: Sequence[bool] = (False, True), pace: int = 1, since: bool = True
) -> Outcome:
    """A walk in steps of the longest batch dominates WAIT's queues.

    Source: fluid paper, Lemma 6 (appendices B.0.2 and E.3)
    Statement: The walk with steps of ΔT(n), reflected at 2n_j, is at least the number of type j
        that wait for their prefill, at all times.
    Formula: W̃_j^0 = 2n_j, W̃_j^{t+ΔT} = max{2n_j, W̃_j^t + X_j − n_j}  ⇒  W̃_j^t ≥ W_j^t
    Assumes: batches last ΔT(n) at most; the same arrivals; no arrival and no batch end just at a
        step of the walk
    Summary: Algorithm 1 takes prompts off at the end of their batch. A class may then have n_j − 1
        waiting, see a bunch arrive during a batch without it, and wait for two ends where the walk
        has had one.
    Reading: at multiples of ΔT, path by path; prompts leave at the end of their batch, as
        Algorithm 1 and the proof in appendix E.3 have it ('the finish of a batch').
    Correction: It holds if the prompts of a batch leave the queue when the batch starts. With the
        convention of Algorithm 1 and of the displayed recursion, where they leave at its end, W̃ +
        n_j (a walk reflected at 3n_j) dominates; all orders of growth stay. At the ends of batches
        alone, of which the displayed recursion speaks, W is at most W̃ and what came since the
        walk's last step.
    """
    cases = list(_settings(context))
    domain = Domain(
        "random small engines with 2 classes; in half of them a bunch of one comes while the "
        "other is served, just before a step of the walk",
        cases,
    )
    printed = domain.refute(
        "W̃ ≥ W, batches leave at their ends",
        verify,
        _data,
        holds=lambda c: excess(*c, leave_at_start=start[0]) is None,
        applies=lambda c: not has_ties(*c),
    )
    corrected = domain.examine(
        "W̃ ≥ W if batches leave at their starts, W̃ + n_j ≥ W otherwise",
        lambda c: excess(*c, leave_at_start=start[1], pace=pace) is None
        and excess(*c, leave_at_start=False, base=3, pace=pace) is None
    )  # fmt: skip
    ends = examine(
        "W ≤ W̃ + what came since its last step, at ends of batches", "the same", cases,
        lambda c: keeps_at_ends(*c, since=since),
    )  # fmt: skip
    return printed, corrected, ends
