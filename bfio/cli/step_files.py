"""Step problems that come out of a run, as documents that ``bfio solve`` reads."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bfio.decode.gap import KeptStep


def write_steps(
    folder: Path, worst: "Sequence[KeptStep]", origin: Mapping[str, object]
) -> list[dict[str, object]]:
    """Write each step into a file of its own, and return what was written.

    Parameters
    ----------
    folder : Path
        Where; files of the same name are replaced, as plots are.
    worst : sequence of KeptStep
        The steps, the worst first.
    origin : mapping
        Where they come from: kept in each document under ``provenance``.
    """
    from bfio.workloads.tables import atomic_file

    written = []
    for rank, kept in enumerate(worst, 1):
        path = folder / f"worst-{rank:02}-step-{kept.row.step}.json"
        document = _document(kept, {**origin, "rank": rank})
        with atomic_file(path, overwrite=True) as (stream, _):
            stream.write(f"{json.dumps(document, allow_nan=False, default=str)}\n".encode())
        row = document["provenance"]
        names = ("step", "objective", "optimum", "bound", "regret_at_most")
        written.append({"file": str(path), **{name: row[name] for name in names}})
    return written


def _document(kept: "KeptStep", origin: Mapping[str, object]) -> dict[str, Any]:
    row, problem = kept.row, kept.problem
    provenance = {
        **origin,
        "step": row.step,
        "decision": list(kept.decision),
        "objective": row.objective,
        "optimum": row.optimum,
        "bound": row.bound,
        "regret_at_most": row.regret_at_most,
        "scale": problem.scale,
        "digest": problem.digest(),
    }
    return problem.to_mapping() | {"provenance": provenance}
