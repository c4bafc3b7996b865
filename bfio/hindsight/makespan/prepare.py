"""Compile the kernels of the search before the first measured solve."""

from functools import cache

import numpy as np

from bfio.common.kernel_groups import ensure_compiled
from bfio.hindsight.makespan.filling import filled, takes_insertions
from bfio.hindsight.makespan.form import search_form
from bfio.hindsight.makespan.lists import best_list
from bfio.hindsight.makespan.search import StepSearch
from bfio.hindsight.makespan.store import rehash
from formulations.deadline import UNLIMITED
from formulations.hindsight_makespan import MakespanObjective, MakespanProblem


@cache
def prepare() -> None:
    """Compile all kernels, or load them from Numba's cache; once per process."""
    ensure_compiled("makespan")
    values = np.arange(1, 6)
    for objective in (MakespanObjective.WALL_CLOCK, MakespanObjective.LATENCY):
        problem = MakespanProblem(2, 2, values - 1, values, values, objective=objective)
        form = search_form(problem)
        if takes_insertions(form):
            list(filled(form, UNLIMITED))
        search = StepSearch(form)
        # Above every optimum, so that no bound ends the search at once.
        known = 2 * form.cost(best_list(problem)[0])
        search.run(known, width=10, most_successors=100)
        # Only large searches come to this one.
        rehash(search.begin(known, width=10, most_successors=100)[1])
