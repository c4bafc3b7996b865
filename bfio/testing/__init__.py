"""Property-based tests of policies: Hypothesis strategies, hand-made states, and checks.

The names below are loaded at first use. Strategies and checks need Hypothesis: install
``bfio[testing]``.
"""

from typing import TYPE_CHECKING

from formulations.errors import InputError
from formulations.lazy import lazy_attributes

if TYPE_CHECKING:
    from bfio.testing.balance import Improvement, improvement_ratio
    from bfio.testing.instances import (
        decode_states,
        fluid_problems,
        latency_problems,
        levelling_steps,
        makespan_problems,
        rounds,
        stable_fluid_problems,
        step_problems,
    )
    from bfio.testing.properties import (
        Refuted,
        check_blind_to_lengths,
        check_conservation,
        check_contract,
        check_improvement,
        check_memory,
        check_no_starvation,
        check_smax_balance,
        check_ties,
        check_work_conserving,
    )
    from bfio.testing.runs import (
        Scenario,
        arrival_processes,
        clusters,
        plain_scenarios,
        scenarios,
        workloads,
    )
    from bfio.testing.states import make_state

__all__ = [
    "Improvement", "Refuted", "Scenario", "arrival_processes", "check_blind_to_lengths",
    "check_conservation", "check_contract", "check_improvement", "check_memory",
    "check_no_starvation", "check_smax_balance", "check_ties", "check_work_conserving", "clusters",
    "decode_states", "fluid_problems", "improvement_ratio", "latency_problems", "levelling_steps",
    "make_state", "makespan_problems", "plain_scenarios", "rounds", "scenarios",
    "stable_fluid_problems", "step_problems", "workloads",
]  # fmt: skip

_load, __dir__ = lazy_attributes(
    __name__,
    {
        f"{__name__}.balance": "Improvement improvement_ratio",
        f"{__name__}.instances": (
            "decode_states fluid_problems latency_problems levelling_steps "
            "makespan_problems rounds stable_fluid_problems step_problems"
        ),
        f"{__name__}.properties": (
            "Refuted check_blind_to_lengths check_conservation check_contract "
            "check_improvement check_memory check_no_starvation check_smax_balance "
            "check_ties check_work_conserving"
        ),
        f"{__name__}.runs": (
            "Scenario arrival_processes clusters plain_scenarios scenarios workloads"
        ),
        f"{__name__}.states": "make_state",
    },
)


def __getattr__(name: str) -> object:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
    what, remedy = "Hypothesis is not installed", "pip install 'bfio[testing]'"
    raise InputError(f"bfio.testing.{name}", what, remedy)
