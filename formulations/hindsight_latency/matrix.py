"""The hindsight latency program as sparse arrays, written directly.

`formulations.hindsight_latency.program` stays the statement.
"""

import numpy as np

from formulations.errors import CapabilityError
from formulations.form_writer import FormWriter
from formulations.hindsight_latency.problem import LatencyProblem
from formulations.request_table import RequestKind
from formulations.standard_form import StandardForm

#: Most nonzeros written; beyond, no solver would return anyway.
MAX_NONZEROS = 50_000_000


def build_standard_form(problem: LatencyProblem, groups: tuple[RequestKind, ...]) -> StandardForm:
    """Write the standard form of a problem with at least one request.

    Columns are ``x[c,k]`` (c slow, k fast); rows are ``start_once[c]``, then ``memory[τ]``.

    Raises
    ------
    CapabilityError
        If there would be more than `MAX_NONZEROS` nonzeros.
    """
    _check_size(problem, groups)
    kind = np.repeat(np.arange(len(groups)), [len(group.starts) for group in groups])
    start = np.concatenate([np.array(group.starts) for group in groups])
    arrival = np.array([group.first_start for group in groups])[kind]
    column = np.arange(len(kind))
    sizes = np.array([len(group.members) for group in groups])
    writer = FormWriter()
    names = (f"x[{c},{k}]" for c, k in zip(kind.tolist(), start.tolist(), strict=True))
    writer.columns(names, upper=sizes[kind], cost=start - arrival)
    names = (f"start_once[{c}]" for c in range(len(groups)))
    writer.add(writer.rows(names, lower=sizes, upper=sizes) + kind, column, 1)
    # Each start occupies the rounds of its ages, and holds as many tokens as prompt and age.
    first_age, last_age = problem.convention.first_age, problem.convention.last_age
    lengths = np.array([last_age(group.output) - first_age + 1 for group in groups])[kind]
    prompts = np.array([group.prompt for group in groups])[kind]
    column = np.repeat(column, lengths)
    age = np.arange(len(column)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + first_age
    rounds, row = np.unique(start[column] + age, return_inverse=True)
    first = writer.rows((f"memory[{t}]" for t in rounds.tolist()), upper=problem.memory)
    writer.add(first + row, column, prompts[column] + age)
    return writer.form(sum(problem.output.tolist()))


def _check_size(problem: LatencyProblem, groups: tuple[RequestKind, ...]) -> None:
    ages = problem.convention.last_age
    nonzeros = sum(len(group.starts) * (ages(group.output) + 2) for group in groups)
    if nonzeros > MAX_NONZEROS:
        raise CapabilityError(
            "problem",
            f"about {nonzeros} nonzeros are more than {MAX_NONZEROS}",
            "use fewer requests or shorter outputs, or the exact method",
        )
