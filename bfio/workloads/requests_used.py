"""How many requests a workload has, from where, and how many rows of a trace are none."""

from bfio.workloads.workload import Workload

#: Rows of a trace that are no requests of a run, and what is said of them.
_LEFT_OUT = {"dropped_zero_output": "without output dropped", "skipped_bad_rows": "bad skipped"}

#: Most columns named; documents have all.
_SHOWN = 5


def requests_used(workload: Workload) -> str:
    """Return how many requests there are, from where, and how many rows of a trace are none."""
    text = f"{workload.name}: {len(workload):,} requests"
    left_out = [
        f"{count:,} {words}"
        for key, words in _LEFT_OUT.items()
        if isinstance(count := workload.provenance.get(key), int) and count
    ]
    if (law := workload.provenance.get("arrival_law")) is not None:
        left_out.append(f"arriving by {law}")
    unused = workload.provenance.get("unused_columns")
    if isinstance(unused, list) and unused:
        more = f" and {len(unused) - _SHOWN} more" if len(unused) > _SHOWN else ""
        left_out.append(f"columns not read: {' '.join(unused[:_SHOWN])}{more}")
    if workload.history is not None:
        left_out.append(f"after {len(workload.history):,} to learn from")
    return f"{text} ({', '.join(left_out)})" if left_out else text
