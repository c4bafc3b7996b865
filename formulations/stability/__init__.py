"""Stability of networks of agents: load condition, capacity, token budgets and theorems.

``capacity`` returns the capacity in closed form, exactly; ``solve_capacity`` computes the capacity
by a linear program; ``theory`` gives a verdict on stability and its theorem. Pyomo is loaded at
first use.
"""

from formulations.batching.batch_time import BudgetChoice, fastest_budget, shortest_batch
from formulations.stability.check import (
    Prices,
    capacity_bound,
    capacity_violations,
    price_violations,
)
from formulations.stability.solver import (
    CapacityProgram,
    CapacityResult,
    capacity,
    loads_of,
    solve_capacity,
)
from formulations.stability.traffic import (
    VirtualStation,
    direct_rates,
    last_stage_priority,
    loads,
    named_priority,
    traffic,
    virtual_stations,
    work_rates,
)
from formulations.stability.verdict import Theory, Verdict, most_rates, theory

__all__ = [
    "BudgetChoice",
    "CapacityProgram",
    "CapacityResult",
    "Prices",
    "Theory",
    "Verdict",
    "VirtualStation",
    "capacity",
    "capacity_bound",
    "capacity_violations",
    "direct_rates",
    "fastest_budget",
    "last_stage_priority",
    "loads",
    "loads_of",
    "most_rates",
    "named_priority",
    "price_violations",
    "shortest_batch",
    "solve_capacity",
    "theory",
    "traffic",
    "virtual_stations",
    "work_rates",
]
