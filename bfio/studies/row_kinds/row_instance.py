"""The digest of what a row's arguments stand for: its requests, and a user's own policy."""

import hashlib
from collections.abc import Sequence

from bfio.studies.row import Context
from bfio.studies.row_kinds.arguments import Arguments
from bfio.studies.row_kinds.run_arguments import RunPlan, policy_digest
from bfio.studies.row_kinds.workload_arguments import request_facts, workload_choice
from formulations.errors import InputError


def row_instance(arguments: Arguments, plans: Sequence[RunPlan], context: Context) -> str:
    """Return 16 hexadecimal digits for the requests of a row, and for policies of one's own.

    Parameters
    ----------
    arguments : Arguments
        Those of the row.
    plans : sequence of RunPlan
        The runs that the row makes of its requests, all on one machine.
    context : Context
        Says where relative file names start.

    Raises
    ------
    InputError
        If the requests cannot be had, or lack the arrival times that a run asks for.
    """
    facts = request_facts(workload_choice(arguments, plans[0].cluster.total_slots, context))
    if any(plan.is_timed for plan in plans) and not facts.has_arrival_times:
        raise InputError(
            "argument arrivals", "the requests have no arrival times", 'use arrivals = "pool"'
        )
    sources = "".join(policy_digest(plan.policy) for plan in plans)
    if not sources:
        return facts.digest
    return hashlib.sha256(f"{facts.digest}{sources}".encode()).hexdigest()[:16]
