"""The parts of a network of agents: agents, stages of requests on them, routes between stages."""

from dataclasses import dataclass
from fractions import Fraction

from formulations.arrays import integer
from formulations.batching.batch_time import MAX_BUDGET, BatchTime
from formulations.documents import shown
from formulations.errors import InputError
from formulations.problem_data import Validated
from formulations.rationals import exact_number

_MAX_ENGINES = 10_000
_MAX_NAME = 60


@dataclass(frozen=True)
class Agent(Validated):
    """One agent: identical engines in parallel, each with a token budget and a batch time.

    Parameters
    ----------
    name : str
        Its name, unique in the network.
    budget : int
        ``b >= 1``: most tokens of one batch.
    batch_time : BatchTime
        Slots that a batch takes.
    engines : int
        ``K >= 1`` (section 4.1); each request is served by one of them.
    chunked : bool
        Whether a prompt may be cut into chunks that are processed in several batches, as the
        model has it (2.5). Without, a whole prompt must fit into the budget.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    name: str
    budget: int
    batch_time: BatchTime
    engines: int = 1
    chunked: bool = True

    def __post_init__(self) -> None:
        """Validate."""
        if not isinstance(self.batch_time, BatchTime):
            raise InputError("batch_time", shown(self.batch_time), "give a BatchTime")
        if not isinstance(self.chunked, bool):
            raise InputError("chunked", shown(self.chunked), "write true or false")
        self._set(
            name=name_of(self.name, "name"),
            budget=integer(self.budget, "budget", minimum=1, maximum=MAX_BUDGET),
            engines=integer(self.engines, "engines", minimum=1, maximum=_MAX_ENGINES),
        )

    @property
    def rate(self) -> Fraction:
        """``K·b/t(b)``, the tokens per slot of all its engines with full batches."""
        return self.engines * self.batch_time.rate(self.budget)


@dataclass(frozen=True)
class Stage(Validated):
    """A class of tasks: what requests of one type need from one agent on one visit.

    Parameters
    ----------
    request_type : str
        Type of the requests.
    agent : str
        Name of the agent.
    prefill, decode : Fraction
        Mean numbers of tokens ``m_p`` and ``m_d``, each at least 1; exact.
    rate : Fraction
        Requests per slot that begin with this stage, from outside; >= 0.
    name : str
        Unique; ``type@agent`` by default. A type that visits an agent twice needs names.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    request_type: str
    agent: str
    prefill: Fraction
    decode: Fraction
    rate: Fraction = Fraction(0)
    name: str = ""

    def __post_init__(self) -> None:
        """Validate."""
        kind, agent = name_of(self.request_type, "type"), name_of(self.agent, "agent")
        self._set(
            prefill=_mean(self.prefill, "prefill"),
            decode=_mean(self.decode, "decode"),
            rate=exact_number(self.rate, "rate"),
            name=name_of(self.name, "name") if self.name != "" else f"{kind}@{agent}",
        )

    @property
    def tokens(self) -> Fraction:
        """``m_p + m_d``, mean tokens of one task."""
        return self.prefill + self.decode


@dataclass(frozen=True)
class Route(Validated):
    """A task of one stage that is done is followed by one of another, with a probability.

    Parameters
    ----------
    source, target : str
        Names of stages of the same type.
    probability : Fraction
        In (0, 1]. What the routes out of a stage leave of 1 departs; in a fork–join type every
        route is taken.

    Raises
    ------
    InputError
        If it is out of range.
    """

    source: str
    target: str
    probability: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        """Validate."""
        remove = "leave the route out, or "
        chance = exact_number(self.probability, "probability", positive=True, otherwise=remove)
        if chance > 1:
            raise InputError("probability", f"{self.probability} is more than 1", "use 1 at most")
        self._set(
            source=name_of(self.source, "from"),
            target=name_of(self.target, "to"),
            probability=chance,
        )


def name_of(value: object, where: str) -> str:
    """Return a name: a short text of one line.

    Raises
    ------
    InputError
        If it is anything else.
    """
    if isinstance(value, str) and 0 < len(value) <= _MAX_NAME and value.isprintable():
        return value
    raise InputError(where, shown(value), f"write a name of 1 to {_MAX_NAME} characters")


def _mean(value: object, where: str) -> Fraction:
    mean = exact_number(value, where, positive=True)
    if mean < 1:
        # Every request has a prefill and a decode token (section 2.1): both numbers are in N.
        raise InputError(where, f"a mean of {mean} tokens", "use 1 or more: each request has one")
    return mean
