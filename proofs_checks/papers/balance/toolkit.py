"""Holding the toolkit to what a claim says: its engines, and what is seen of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.policy import Policy
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.workloads.workload import Workload
from proofs_checks.claim import Context
from proofs_checks.evidence import Evidence, Examination, agreed


def engines(context: Context) -> tuple[str, ...]:
    """Return the engines to look at; loading the compiled one takes too long for quick effort."""
    both = ("reference", "compiled")
    return context.choose(("reference",), both, both)


def full_run(
    prompts: Sequence[int],
    outputs: Sequence[int],
    policy: str | Policy,
    cluster: Cluster,
    engine: str = "reference",
) -> Run:
    """Run a policy on an engine until all is done, with all requests in the pool at once.

    Policies of one's own run on the readable engine.
    """
    workload = Workload(np.array(prompts, dtype=np.int64), np.array(outputs, dtype=np.int64))
    chosen = engine if isinstance(policy, str) else "reference"
    return simulate(workload, policy, cluster, engine=chosen, pool=len(workload))


def confirmed(evidence: Evidence, *more: Examination[Any]) -> Evidence:
    """Return evidence whose correction must hold in further examinations too."""
    tallies = (*evidence.tallies, *(seen.tally for seen in more))
    # The first tally is that of the printed statement.
    return replace(evidence, as_corrected=agreed(*tallies[1:]), tallies=tallies)
