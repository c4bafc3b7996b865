"""For every option that is declared, some values and what has to be given beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bfio.common.options import NUMBER, RATIONAL, WHOLE, Option, options_of
from bfio.decode.cluster import Cluster
from bfio.decode.energy_model import EnergyModel
from bfio.decode.options import RunOptions
from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_parsing import options_read
from bfio.decode.policy_registry import built_in

#: All that has options of a run.
OWNERS = (Cluster, EnergyModel, RunOptions, PolicyOptions)
#: Values of what is no plain number.
_VALUES: dict[str, tuple[object, ...]] = {
    "slots": (3, 4, "4,3"),
    "step_overhead": (0.01, 0.0100000001, "0.01,0.02"),
    "token_time": (1e-6, 1.000000001e-6),
    "memory": (90_000, 90_001),
    "speed": (2, 2.000000001, "1,2"),
    "prefix_cache": (5120, 10_240),
    "token_budget": (512, 513),
    "arrivals": ("timed",),
    "dispatch": ("immediate",),
    "projection": ("growing",),
    "predictor": ("oracle", "survival", "survival:refresh=5", "noisy-oracle", "noisy-oracle:0.25"),
    "window_knows": ("all",),
    "drift": ("constant", "2/3", "age:1,0"),
    "overflow": ("reserve", "swap"),
    "batching": ("orca", "sarathi:kp=4"),
    "failures": ("random:mtbf=3:mttr=1", "random:mtbf=3:mttr=2"),
    "stragglers": ("random:mtbf=3:mttr=1", "random:mtbf=3:mttr=1:factor=3"),
    "slo": ("ttft=2", "ttft=2.000000001", "tpot=2"),
    "cancellations": ("random:patience=3", "random:patience=4"),
    "prefill": ("workers=4,token_time=5e-5", "workers=4,token_time=5.000000001e-5"),
    "telemetry": ("delay=4", "loss=0.1", "loss=0.1000000001"),
    "key": ("product",),
    "base": ("fcfs", "random", "program"),
    "pausing_method": ("exact",),
    "backend": ("highs", "cp-sat"),
    "objective": ("gap", "max-load"),
    "second": ("age", "window"),
}
#: What an option needs beside it.
_BESIDE: dict[str, dict[str, object]] = {
    **{name: {"arrivals": "timed"} for name in ("load", "rate_scale", "cancellations", "prefill")},
    "margin": {"dispatch": "immediate"},
    "batching": {"token_budget": 512},
    "batch_token_time": {"token_budget": 512},
    "free_tokens": {"token_budget": 512, "batch_token_time": 1e-6},
    **{name: {"second": "window"} for name in ("slack", "second_proof", "second_horizon")},
    "time_limit": {"pausing_method": "exact"},
}


@dataclass(frozen=True)
class Sample:
    """An option with values that differ from each other and from the default.

    Parameters
    ----------
    owner : type
        Where it is declared.
    name : str
        What users call it.
    values : tuple
        As a study has them.
    beside : mapping
        Other options that it needs.
    policies : tuple of str
        Policies that read it; one that looks ahead if it is none of a policy.
    """

    owner: type[Any]
    name: str
    values: tuple[object, ...]
    beside: dict[str, object]
    policies: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"

    def rows(self, policy: str) -> list[dict[str, Any]]:
        """Return arguments that differ in this option alone, the default first."""
        common: dict[str, Any] = {"workers": 2, "slots": 3} | self.beside | {"policy": policy}
        common.pop(self.name, None)
        return [common, *({**common, self.name: value} for value in self.values)]


def samples() -> Iterator[Sample]:
    """Yield a sample of every option.

    Raises
    ------
    KeyError
        If values of a new one are neither numbers nor told above.
    """
    for owner in OWNERS:
        for entry in options_of(owner):
            beside = _BESIDE.get(entry.name, {})
            policies = _readers(entry.name, beside) if owner is PolicyOptions else ("br-h",)
            yield Sample(owner, entry.name, _values(entry), beside, policies)


def _values(entry: Option) -> tuple[object, ...]:
    if entry.name in _VALUES:
        return _VALUES[entry.name]
    if entry.kind is WHOLE:
        return (entry.default or 5) + 2, (entry.default or 5) + 3
    if entry.kind is NUMBER:
        return (entry.default or 0.01) * 1.5, (entry.default or 0.01) * 1.500000001
    if entry.kind is RATIONAL:
        return "0.5", "1/3", "0.333333"
    return _VALUES[entry.name]


def _readers(name: str, beside: dict[str, object]) -> tuple[str, ...]:
    given = PolicyOptions(**beside)  # type: ignore[arg-type]
    return tuple(each for each in built_in() if name in (options_read(each, given) or ()))
