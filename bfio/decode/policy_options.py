"""The flags every policy is made from, checked once at the edge."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from bfio.common.options import NUMBER, RATIONAL, TEXT, WHOLE, option
from formulations.errors import InputError
from formulations.keywords import known_fields
from formulations.named_objects import is_users
from formulations.rationals import exact_rational
from formulations.scalars import MAX_TOKENS, integer
from formulations.work import checked_work_limit

if TYPE_CHECKING:
    from formulations.step.problem import Objective

#: How stage 2 of the two-stage heuristic orders workers.
KEYS = ("lexicographic", "product")
#: Solvers that `bf-io` can call at each step.
BACKENDS = ("exact", "cp-sat", "highs", "pyomo")
#: What `pausing` decides with.
PAUSING_METHODS = ("heuristic", "exact")
#: Name that stands for its program where it says who routes.
PROGRAM = "program"
#: Any of the optima of a step will do.
NO_SECOND = "none"
#: Followed by the name of one of Pyomo's solvers, this is a backend too.
NAMED_SOLVER = "pyomo:"

#: What commands that replay runs say of their limits.
WORK_LIMIT_HELP = (
    "work of each solve, counted alike on every machine (default 1000000, about a second)"
)
TIME_LIMIT_HELP = "wall-clock limit of each solve instead: numbers may differ between machines"

_MAX_COUNT = 10**9
_MAX_HORIZON = 5000
_MAX_NODES = 10**4
_MAX_PART = 10**6


@known_fields
@dataclass(frozen=True)
class PolicyOptions:
    """Options of all policies; each policy reads the ones it knows.

    Rationals may be given as `Fraction`, int, or a string such as ``"0.86"`` or ``"43/50"``;
    they are kept exactly.

    Parameters
    ----------
    horizon : int, optional
        ``H``, look-ahead steps; by default 20 for `br-h`, 40 for `rolling-horizon`, up to 80 for
        `adaptive` and 0 for all others.
    threshold : int
        ``θ``: total free slots up to which the two-stage heuristic chooses subsets (stage 2).
    candidates : int, optional
        ``K``: requests considered per subset choice. By default 64 when all waiting requests grow
        alike (reachable sums), 12 when they do not (enumeration; 16 at most).
    alpha, beta : Fraction
        Reward and penalty factor of the F-score. ``beta`` is by default the number of workers for
        `br-0` and 43 for `br-h`.
    gamma : Fraction, optional
        Discount per look-ahead step, in (0, 1]; by default 0.86 for `br-h` and 1 for `bf-io`.
    moves : int, optional
        Exchanges of requests that a plan of `rolling-horizon` looks at; by default 40,000.
    max_wait : int, optional
        ``W``: requests that have waited so many steps start before all others in `bf-io`, `br-0`
        and `br-h`, the oldest first; by default nobody does.
    choices : int
        ``d``, workers that `power-of-2` samples per request.
    cap_threshold : int, optional
        ``Θ`` of `throttled` [tokens]; by default the mean load per worker after a full admission.
    report_every : int, optional
        Steps between two reports of what workers hold, of `minimum-tokens` and `total-tokens`; by
        default 40 and 60.
    timeout_steps : int
        Steps that `attention-dp-balance` waits for all workers to have a free slot.
    batching_steps : int
        Steps that it waits for more requests once they have.
    max_load_skew : Fraction, optional
        Times the mean load above which `prefix-affinity` and `consistent-hash` pass over a worker,
        0 for none; by default 3/2 and 0.
    key_blocks : int
        First blocks of a prompt that are its key for `consistent-hash`.
    virtual_nodes : int
        Places of each worker on its ring.
    benefit : Fraction
        ``μ``: what a prompt token found in a prefix cache is worth to `br-0`, `br-h` and `bf-io`
        [tokens of imbalance]; a placement's worth is rounded down to whole tokens.
    base : str
        Which policy routes for `pausing`, or ``program``: its program routes as well.
    max_pauses : int
        ``P``: most steps in a row that a request rests with it.
    pausing_method : str
        How its program is solved, one of `PAUSING_METHODS`.
    key : str
        Priority of stage 2, ``"lexicographic"`` (free slots, then margin) or ``"product"``.
    backend : str
        Solver of `bf-io`, one of `BACKENDS` or ``pyomo:SOLVER``.
    work_limit : int, optional
        Work of each solve of `bf-io` [ticks, `formulations.work`], so that one hard step does not
        hold up thousands of easy ones: where it strikes is the same on every machine. By default
        1,000,000 (about a second), or none if there is a time limit.
    time_limit : float, optional
        Wall-clock limit of each solve of `bf-io` [s]; what it decides differs from machine to
        machine.
    objective : Objective
        What `bf-io` minimises.
    second : str
        What `bf-io` minimises among the optima of each step: ``none``, or a
        `formulations.second.Second`, which its own search does.
    second_horizon : int
        Look-ahead of the second objective ``window``.
    slack : int
        ε: how far above the optimum the objective may be for it [tokens].
    second_proof : int
        Ticks of work in which CP-SAT may prove each second objective; 0 for none.

    Raises
    ------
    InputError
        If a value breaks its rule, naming the flag.
    """

    horizon: int | None = option(
        None,
        WHOLE,
        "H",
        "look-ahead steps (0; br-h 20; rolling-horizon 40; adaptive: at most, 80)",
    )
    threshold: int = option(7, WHOLE, "N", "br-0, br-h, adaptive: θ, slots for stage 2 (7)")
    candidates: int | None = option(
        None, WHOLE, "K", "br-0, br-h, adaptive: requests per subset choice (64)"
    )
    alpha: Fraction = option(Fraction(1), RATIONAL, "A", "br-0, br-h: reward scale (1)")
    beta: Fraction | None = option(None, RATIONAL, "B", "overflow penalty (br-0: G; br-h: 43)")
    gamma: Fraction | None = option(None, RATIONAL, "C", "discount per step (br-h 0.86; bf-io 1)")
    key: str = option("lexicographic", TEXT, "K", "stage 2 order: lexicographic, product")
    moves: int | None = option(
        None, WHOLE, "N", "rolling-horizon: exchanges looked at per decision (40000)"
    )
    max_wait: int | None = option(
        None,
        WHOLE,
        "W",
        "bf-io, br-0, br-h: who has waited W steps starts before others (never)",
    )
    choices: int = option(2, WHOLE, "D", "power-of-2: workers sampled (2)")
    cap_threshold: int | None = option(None, WHOLE, "N", "throttled: load limit [tokens]")
    report_every: int | None = option(
        None, WHOLE, "N", "minimum-tokens, total-tokens: steps between reports (40; 60)"
    )
    timeout_steps: int = option(
        50, WHOLE, "N", "attention-dp-balance: steps it waits for all workers (50)"
    )
    batching_steps: int = option(
        10, WHOLE, "N", "attention-dp-balance: steps it gathers requests (10)"
    )
    max_load_skew: Fraction | None = option(
        None,
        RATIONAL,
        "R",
        "prefix-affinity, consistent-hash: pass over workers above R times the mean load (3/2; 0)",
    )
    key_blocks: int = option(2, WHOLE, "N", "consistent-hash: first blocks that are the key (2)")
    virtual_nodes: int = option(
        160, WHOLE, "N", "consistent-hash: places of a worker on the ring (160)"
    )
    benefit: Fraction = option(
        Fraction(0),
        RATIONAL,
        "MU",
        "br-0, br-h, bf-io: tokens of imbalance per cached prompt token (0)",
    )
    base: str = option("br-0", TEXT, "B", "pausing: policy that routes, or program (br-0)")
    max_pauses: int = option(8, WHOLE, "P", "pausing: most steps in a row that one rests (8)")
    pausing_method: str = option(
        "heuristic", TEXT, "M", "pausing: how each step is solved (heuristic, exact)"
    )
    backend: str = option("exact", TEXT, "B", "bf-io: exact, cp-sat, highs or pyomo")
    objective: Objective = option("imbalance", TEXT, "O", "imbalance, max-load or gap")
    second: str = option(NO_SECOND, TEXT, "S", "bf-io: which optimum (none; docs/second.md)")
    second_horizon: int = option(20, WHOLE, "H", "bf-io: look-ahead of second=window (20)")
    slack: int = option(0, WHOLE, "E", "bf-io: second may cost so much of the first (0)")
    second_proof: int = option(0, WHOLE, "TICKS", "bf-io: work to prove each second (0)")
    work_limit: int | None = option(None, WHOLE, "TICKS", WORK_LIMIT_HELP)
    time_limit: float | None = option(None, NUMBER, "SECONDS", TIME_LIMIT_HELP)

    def __post_init__(self) -> None:
        """Validate, and turn texts into what they name."""
        from formulations.second.problem import Second
        from formulations.step.problem import Objective

        integer(self.threshold, "threshold", maximum=_MAX_COUNT)
        integer(self.choices, "choices", minimum=1, maximum=_MAX_COUNT)
        integer(self.slack, "slack", maximum=MAX_TOKENS)
        integer(self.second_horizon, "second_horizon", maximum=_MAX_HORIZON)
        checked_work_limit(self.second_proof, "second_proof")
        _optional_integer(self.candidates, "candidates", 1, _MAX_COUNT)
        _optional_integer(self.horizon, "horizon", 0, _MAX_HORIZON)
        _optional_integer(self.report_every, "report_every", 1, _MAX_COUNT)
        integer(self.timeout_steps, "timeout_steps", maximum=_MAX_COUNT)
        integer(self.batching_steps, "batching_steps", maximum=_MAX_COUNT)
        _optional_integer(self.max_wait, "max_wait", 0, _MAX_COUNT)
        integer(self.key_blocks, "key_blocks", minimum=1, maximum=_MAX_COUNT)
        integer(self.virtual_nodes, "virtual_nodes", minimum=1, maximum=_MAX_NODES)
        _optional_integer(self.moves, "moves", 1, _MAX_COUNT)
        _optional_integer(self.cap_threshold, "cap_threshold", 1, MAX_TOKENS)
        integer(self.max_pauses, "max_pauses", maximum=10**6)
        _one_of(self.pausing_method, "pausing_method", PAUSING_METHODS)
        _one_of(self.key, "key", KEYS)
        if not is_users(str(self.backend)):
            _one_of(self.backend, "backend", BACKENDS)
        _one_of(self.objective, "objective", tuple(Objective))
        _one_of(self.second, "second", (NO_SECOND, *Second))
        _check_time_limit(self.time_limit)
        checked_work_limit(self.work_limit)
        object.__setattr__(self, "objective", Objective(self.objective))
        for name in ("alpha", "beta", "gamma", "max_load_skew", "benefit"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, exact_rational(value, name))
        for name in ("max_load_skew", "benefit"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= max(value.as_integer_ratio()) <= _MAX_PART:
                remedy = f"use a/b >= 0 of whole numbers up to {_MAX_PART}"
                raise InputError(name, f"{value} is out of range", remedy)
        if self.gamma is not None and not 0 < self.gamma <= 1:
            raise InputError("gamma", f"{self.gamma} is out of range", "use 0 < gamma <= 1")


def _optional_integer(value: int | None, where: str, minimum: int, maximum: int) -> None:
    if value is not None:
        integer(value, where, minimum=minimum, maximum=maximum)


def _one_of(value: object, where: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(where, f"{value!r} is unknown", f"use one of {', '.join(known)}")


def _check_time_limit(value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise InputError("time_limit", f"{value!r} s", "give a finite number of seconds > 0")
