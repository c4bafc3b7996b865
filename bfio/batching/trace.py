"""Requests of a trace on one agent: their sizes, and their own times or Poisson times."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from bfio.batching.arrivals import MAX_SLOT, ListedArrivals
from bfio.batching.scenario import Scenario
from bfio.batching.sizes import ListedSizes
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from formulations.batching import AgentNetwork
from formulations.errors import InputError


def with_trace(
    scenario: Scenario, workload: Workload, *, rate_scale: Fraction | int = 1, drawn: bool = False
) -> Scenario:
    """Return a scenario of one stage with the requests of a trace.

    Parameters
    ----------
    scenario : Scenario
        Of a network with one stage; its means and its rate become those of the trace, but for a
        rate that is ``drawn``.
    workload : Workload
        Prompts and outputs; a request without output decodes one token, as each does (2.1).
    rate_scale : Fraction or int
        Multiplies the rate of the trace's own times.
    drawn : bool
        Whether arrivals are drawn with the network's rate instead, and sizes from the trace with
        replacement.

    Raises
    ------
    InputError
        If the network has several stages or slots without a length, or the trace no times.
    """
    network = scenario.network
    if len(network.stages) > 1:
        what = f"{len(network.stages)} stages for the requests of a trace"
        raise InputError("trace", what, "give a file with one stage")
    decode = np.maximum(workload.output_tokens, 1)
    sizes = ListedSizes(workload.prompt_tokens, decode, in_order=not drawn)
    stage = network.stages[0].name
    if drawn:
        return replace(
            scenario,
            network=_with_means(network, sizes, network.stages[0].rate),
            listed_sizes={stage: sizes},
        )
    slots = _arrival_slots(network, workload, Fraction(rate_scale))
    rate = Fraction(len(slots), int(slots[-1]) + 1)
    return replace(
        scenario,
        network=_with_means(network, sizes, rate),
        listed_sizes={stage: sizes},
        listed_arrivals={stage: ListedArrivals(slots)},
    )


def _arrival_slots(network: AgentNetwork, workload: Workload, scale: Fraction) -> IntArray:
    """Return the slots in which requests arrive: they may be loaded in the next one."""
    if network.slot is None:
        raise InputError("slot", "a slot has no length", "say how many seconds it lasts")
    if scale <= 0:
        raise InputError("rate_scale", f"{scale} is out of range", "use a number > 0")
    times = workload.exact_arrivals("give a rate")
    slots = np.maximum(times.rounded_up(1 / (network.slot * scale)) - 1, 0)
    if not len(slots) or int(slots[-1]) >= MAX_SLOT:
        raise InputError("trace", f"{len(slots)} requests", "use another trace or rate scale")
    return np.asarray(slots, dtype=np.int64)


def _with_means(network: AgentNetwork, sizes: ListedSizes, rate: Fraction) -> AgentNetwork:
    """Return a network of one stage with the means of a trace, so that theory speaks of them."""
    num = len(sizes.prefill)
    prefill, decode = (Fraction(int(v.sum()), num) for v in (sizes.prefill, sizes.decode))
    stage = replace(network.stages[0], prefill=prefill, decode=decode, rate=rate)
    return replace(network, stages=(stage,))
