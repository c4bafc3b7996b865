"""The prefill tier around a run: its words, and its columns of the record."""

from bfio.decode.features.feature import Feature
from bfio.decode.features.prefill.metrics import METRICS
from bfio.decode.features.prefill.replay import RULES
from bfio.decode.machine.state import State
from formulations.arrays import frozen


def _record(state: State) -> dict[str, object]:
    if not state.tier.is_on:
        return {"expiries": None}
    return {"ready_s": frozen(state.tier.ready_s), "held_s": frozen(state.tier.held_s)}


FEATURE = Feature(
    "prefill",
    {"prefill": lambda _, options: options.prefill is not None},
    setting=lambda _, options: f"prefill tier {options.prefill.text}" if options.prefill else "",
    after="arrivals",
    record=_record,
    rules=RULES,
    metrics=METRICS,
    rank=3,
)
