"""Sample values for every declared option, with the other options that it needs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bfio.common.options import NUMBER, RATIONAL, WHOLE, Option, options_of
from bfio.decode.cluster import Cluster
from bfio.decode.energy_model import EnergyModel
from bfio.decode.options import RunOptions
from bfio.decode.policy_registry import built_in, choose

#: Classes with options of a run, other than policies.
OWNERS = (Cluster, EnergyModel, RunOptions)
#: Values of options that are neither numbers nor one of several words.
_VALUES: dict[str, tuple[object, ...]] = {
    "slots": (3, 4, "4,3"),
    "step_overhead": (0.01, 0.0100000001, "0.01,0.02"),
    "token_time": (1e-6, 1.000000001e-6),
    "memory": (90_000, 4_000),
    "speed": (2, 2.000000001, "1,2"),
    "prefix_cache": (5120, 10_240),
    "token_budget": (512, 513),
    "arrivals": ("timed",),
    "dispatch": ("immediate",),
    "projection": ("growing",),
    "predictor": ("oracle", "survival", "survival:refresh=5", "noisy-oracle", "noisy-oracle:0.25"),
    "window_knows": ("all",),
    "drift": ("constant", "2/3", "age:1,0"),
    "ties": ("rotating", "random"),
    "overflow": ("reserve", "swap"),
    "batching": ("orca", "sarathi:kp=4"),
    "failures": (
        "random:mtbf=200:mttr=60:until=1e4",
        "random:mtbf=200:mttr=70:until=1e4",
    ),
    "stragglers": (
        "random:mtbf=200:mttr=60:until=1e4",
        "random:mtbf=200:mttr=60:factor=3:until=1e4",
    ),
    "slo": ("ttft=2", "ttft=2.000000001", "tpot=2"),
    "cancellations": ("random:patience=3", "random:patience=4"),
    "prefill": ("workers=4,token_time=5e-5", "workers=4,token_time=5.000000001e-5"),
    "telemetry": ("delay=4", "loss=0.1", "loss=0.1000000001"),
    "base": ("fcfs", "random", "program"),
    "backend": ("highs", "cp-sat"),
    "objective": ("gap", "max-load"),
    "swap_time": (3e-5, 0.01),
    # Long enough not to be reached, except for `pausing`, where only a reached limit shows.
    "time_limit": (100.0, 50.0),
    "pausing.time_limit": (100.0, 1e-9),
}
#: Other options that an option of a run needs.
_BESIDE: dict[str, dict[str, object]] = {
    **{name: {"arrivals": "timed"} for name in ("load", "rate_scale", "cancellations", "prefill")},
    "margin": {"dispatch": "immediate"},
    "batching": {"token_budget": 512},
    "batch_token_time": {"token_budget": 512},
    "free_tokens": {"token_budget": 512, "batch_token_time": 1e-6},
}


@dataclass(frozen=True)
class Sample:
    """An option with values that differ from each other and from the default.

    Parameters
    ----------
    owner : str
        Class or policy that declares it.
    entry : Option
        The option.
    values : tuple
        Values as in a study.
    beside : mapping
        Other options that it needs.
    policy : str
        A policy that reads it; for options of a run, one with a look-ahead window.
    """

    owner: str
    entry: Option
    values: tuple[object, ...]
    beside: dict[str, object]
    policy: str = "br-h"

    @property
    def name(self) -> str:
        """Name of the option for users."""
        return self.entry.name

    def __str__(self) -> str:
        return f"{self.owner}.{self.name}"

    def rows(self) -> list[dict[str, Any]]:
        """Return arguments that differ in this option alone, the default first."""
        common: dict[str, Any] = {"workers": 2, "slots": 3} | self.beside
        common |= {"policy": self.policy}
        common.pop(self.name, None)
        return [common, *({**common, self.name: value} for value in self.values)]


def run_samples() -> Iterator[Sample]:
    """Yield a sample of every option of machine, energies and runs.

    Raises
    ------
    KeyError
        If the values of a new option are neither numbers, nor words, nor listed above.
    """
    for owner in OWNERS:
        for entry in options_of(owner):
            beside = _BESIDE.get(entry.name, {})
            yield Sample(owner.__name__, entry, values_of(entry), beside)


def policy_samples() -> Iterator[Sample]:
    """Yield a sample of every option of every policy; see above."""
    for policy in built_in():
        table = choose(policy).table
        for entry in table.values():
            beside = _needed(entry, table)
            values = _VALUES.get(f"{policy}.{entry.name}", values_of(entry))
            yield Sample(policy, entry, values, beside, policy)


def _needed(entry: Option, table: dict[str, Option]) -> dict[str, object]:
    """Return what the declaration says that an option is read beside."""
    name, _, wanted = entry.beside.partition("=")
    if not name or wanted == "pooled":
        return {}
    if name in table:
        first = values_of(table[name])[0]
        return {name: wanted or first}
    return {name: wanted or _VALUES[name][0]}


def values_of(entry: Option) -> tuple[object, ...]:
    """Return values that differ from each other and from the default."""
    if entry.name in _VALUES:
        return _VALUES[entry.name]
    if entry.kind.words:
        return tuple(str(word) for word in entry.kind.words if word != entry.default)
    if entry.kind.types == WHOLE.types:
        usual = entry.default or 5
        return tuple(value for value in (1, usual + 2, usual + 30) if value != usual)
    if entry.kind.types == NUMBER.types:
        return (entry.default or 0.01) * 1.5, (entry.default or 0.01) * 1.500000001
    if entry.kind.types == RATIONAL.types:
        return "0.5", "1/3", "0.333333"
    return _VALUES[entry.name]
