"""Batch times of hardware and models that have been published, by name."""

from dataclasses import dataclass
from fractions import Fraction

from formulations.batching import BatchTime, single_engine
from formulations.batching.network import AgentNetwork
from formulations.errors import InputError, use_one_of
from formulations.rationals import exact_number


@dataclass(frozen=True)
class Hardware:
    """A model on some accelerators, and how long a batch takes there, equation (2.3).

    Parameters
    ----------
    name : str
        Its name on the command line.
    summary : str
        Model and accelerators.
    source : str
        Where the constants come from.
    slot : Fraction
        Length of a slot in which they are whole [s].
    batch_time : BatchTime
        In these slots.
    """

    name: str
    summary: str
    source: str
    slot: Fraction
    batch_time: BatchTime

    def network(
        self,
        rate: object,
        prefill: object,
        decode: object,
        *,
        budget: int = 512,
        engines: int = 1,
    ) -> AgentNetwork:
        """Return one type of request on such engines.

        Parameters
        ----------
        rate : number
            Requests per second.
        prefill, decode : number
            Mean tokens.
        budget, engines : int
            ``b`` and how many engines there are.
        """
        return single_engine(
            exact_number(rate, "rate") * self.slot,
            prefill,
            decode,
            budget=budget,
            batch_time=self.batch_time,
            engines=engines,
            slot=self.slot,
        )


_TENTH_MS = Fraction(1, 10_000)
#: The paper fits CodeLlama-34B, too (figure 4), and prints no constants of it.
HARDWARE = {
    entry.name: entry
    for entry in (
        Hardware(
            "llama-3-70b-2xa100",
            "Llama-3-70B on two A100-80GB with NVLink, tensor-parallel",
            "throughput paper, section 2.1: c = 45.5 ms, a = 0.30 ms/token, b0 = 64 tokens",
            _TENTH_MS,
            BatchTime.in_slots_of("0.1", overhead="45.5", per_token="0.3", free_tokens=64),
        ),
    )
}


def hardware(name: str) -> Hardware:
    """Return the hardware of a name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in HARDWARE:
        raise InputError("hardware", f"{name!r} is unknown", use_one_of(name, HARDWARE))
    return HARDWARE[name]
