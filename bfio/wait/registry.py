"""Names to policies: WAIT, Nested WAIT, the baselines, and a user's own ``module:function``."""

from bfio.common.named_options import Named, by_name, read_named
from bfio.common.users_code import load_callable
from bfio.wait.policy import StagePolicy
from bfio.wait.recipes import FirstCome, NestedWait, NewFirst, OngoingFirst, Recipe, Wait
from formulations.fluid import FluidProblem

#: The built-in policies: each is made of its options and of what arrives.
BUILT_IN: dict[str, Named[Recipe]] = by_name(
    Named[Recipe](
        "wait",
        "starts a class when a threshold of it wait; lengths known",
        "fluid paper, Algorithm 1",
        Wait(),
    ),
    Named[Recipe](
        "nested-wait",
        "a threshold per segment of stages; lengths unknown",
        "fluid paper, Algorithm 2, sections 5 and 7.2",
        NestedWait(),
    ),
    Named[Recipe](
        "new-first",
        "order of arrival, prefills first within the limits of a batch",
        "fluid paper, section 6, vLLM-like",
        NewFirst(),
    ),
    Named[Recipe](
        "ongoing-first",
        "order of arrival, ongoing requests first within the limits of a batch",
        "fluid paper, section 6, Sarathi-like",
        OngoingFirst(),
    ),
    Named[Recipe](
        "fcfs",
        "order of arrival whenever the memory permits, no other limit",
        "fluid paper, proposition 4",
        FirstCome(),
    ),
)


def check(text: str) -> None:
    """Refuse a text that names no policy, or gives it options that it has not.

    Raises
    ------
    InputError
        As `build`, but for what depends on the requests.
    """
    if read_named(text, BUILT_IN, "policy") is None:
        load_callable(text, "policy")


def build(text: str, problem: FluidProblem) -> StagePolicy:
    """Return the policy that a text names for what arrives, with the options written behind it.

    Parameters
    ----------
    text : str
        The policy.
    problem : FluidProblem
        Classes and worker, from which thresholds follow.

    Raises
    ------
    InputError
        If name or option are unknown, a value is unreadable, a module cannot be used, or no
        thresholds exist.
    """
    recipe = read_named(text, BUILT_IN, "policy")
    if recipe is not None:
        return recipe.policy(problem)
    policy: StagePolicy = load_callable(text, "policy")
    return policy
