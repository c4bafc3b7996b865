"""The pausing program as sparse arrays, written directly; `program` stays the statement."""

import numpy as np

from formulations.errors import CapabilityError
from formulations.form_writer import FormWriter
from formulations.pausing.bound import longest_step, shortest_step
from formulations.pausing.problem import PricedPausing
from formulations.standard_form import EXACT_LIMIT, StandardForm

#: Most nonzeros written; beyond, no solver would return anyway.
MAX_NONZEROS = 20_000_000


def build_standard_form(priced: PricedPausing) -> StandardForm:
    """Write the standard form of a priced problem with at least one request.

    Columns are ``y[j]``, then ``x[i,g]`` (i slow, g fast), then ``M``.

    Raises
    ------
    CapabilityError
        If there would be more than `MAX_NONZEROS` nonzeros, or a cost that float64 rounds.
    """
    problem = priced.problem
    J, N, G = problem.num_active, problem.num_requests, problem.num_workers
    _check_size(priced)
    writer = FormWriter()
    price = -priced.token_price
    y = writer.columns((f"y[{j}]" for j in range(J)), cost=price) + np.arange(J)
    names = (f"x[{i},{g}]" for i in range(N) for g in range(G))
    x = writer.columns(names, cost=price) + np.arange(N * G)
    request, worker = np.divmod(np.arange(N * G), G)
    bounds = {"lower": shortest_step(problem), "upper": longest_step(problem)}
    peak = writer.columns(["M"], **bounds, cost=priced.time_price)
    if N:
        first = writer.rows((f"admit_once[{i}]" for i in range(N)), upper=1)
        writer.add(first + request, x, 1)
        first = writer.rows((f"capacity[{g}]" for g in range(G)), upper=problem.capacity)
        writer.add(first + worker, x, 1)
    # Without a request on it a worker is within the bounds of M.
    on = np.arange(G) if N else np.unique(problem.worker)
    first = writer.rows((f"peak[{g}]" for g in on), upper=-problem.overheads[on])
    rates = problem.rates
    row = first + np.searchsorted(on, problem.worker)
    writer.add(row, y, problem.load * rates[problem.worker])
    writer.add(first + worker, x, problem.waiting[request] * rates[worker])
    writer.add(first + np.arange(len(on)), np.full(len(on), peak), -1)
    must = np.flatnonzero(problem.must_run)
    first = writer.rows((f"must_run[{j}]" for j in must), lower=1, upper=1)
    writer.add(first + np.arange(len(must)), y[must], 1)
    writer.add(writer.rows(["emits"], lower=1), np.concatenate([y, x]), 1)
    if problem.token_capacity is not None and N:
        room = np.maximum(problem.room, 0)
        first = writer.rows((f"token_capacity[{g}]" for g in range(G)), upper=room)
        writer.add(first + worker, x, problem.waiting[request])
    if problem.required is not None:
        starts = np.flatnonzero(problem.must_start)
        first = writer.rows((f"required[{i}]" for i in starts), lower=1, upper=1)
        each = np.arange(len(starts) * G)
        writer.add(first + each // G, x[starts[each // G] * G + each % G], 1)
    return writer.form()


def _check_size(priced: PricedPausing) -> None:
    problem = priced.problem
    nonzeros = 5 * problem.num_requests * problem.num_workers + 4 * problem.num_active
    if nonzeros > MAX_NONZEROS:
        raise CapabilityError(
            "program", f"about {nonzeros} nonzeros are more than {MAX_NONZEROS}", "use exact"
        )
    if max(priced.time_price, priced.token_price, longest_step(problem)) >= EXACT_LIMIT:
        raise CapabilityError(
            "step_overhead, token_time",
            f"times in units of 1/{problem.scale} s go beyond 2^53, where float64 rounds",
            "write times with fewer digits, or in units of the time of one token",
        )
