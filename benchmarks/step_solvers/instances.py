"""Harvested step problems on disk: gzipped JSON Lines, a header and then one problem per line."""

import gzip
import hashlib
import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from benchmarks.step_solvers.harvest import Harvest, StepInstance, harvest
from formulations.documents import parse_json
from formulations.errors import InputError
from formulations.step.problem import StepProblem

FOLDER = "instances"


@lru_cache(maxsize=2)
def stored_instances(wanted: Harvest, out: Path, data: Path) -> tuple[StepInstance, ...]:
    """Return the instances of a harvest, made on first use and read from then on."""
    path = out / FOLDER / f"{wanted.label}.jsonl.gz"
    if not path.exists():
        write_instances(path, wanted, tuple(harvest(wanted, data)))
    return read_instances(path, wanted)


def write_instances(path: Path, made_by: Harvest, instances: tuple[StepInstance, ...]) -> None:
    """Store instances; equal instances give equal bytes, and a kill leaves no half file."""
    documents: list[dict[str, object]] = [{"harvest": made_by.to_mapping()}]
    documents += [
        {"kind": i.kind, "seed": i.seed, "step": i.step, "problem": i.problem.to_mapping()}
        for i in instances
    ]
    text = "".join(json.dumps(d, separators=(",", ":")) + "\n" for d in documents)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    # No time stamp in the gzip header: the file is a function of its content.
    partial.write_bytes(gzip.compress(text.encode(), mtime=0))
    partial.replace(path)


def read_instances(path: Path, wanted: Harvest | None = None) -> tuple[StepInstance, ...]:
    """Read stored instances.

    Raises
    ------
    InputError
        If the file is damaged, or was made by another harvest than ``wanted``.
    """
    try:
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        header, *documents = (parse_json(line) for line in lines)
        made_by = header["harvest"]
        found = tuple(_instance(document) for document in documents)
    except (OSError, EOFError, KeyError, ValueError) as error:
        raise InputError(str(path), f"unreadable ({error})", "delete it, and run again") from None
    if wanted is not None and made_by != wanted.to_mapping():
        raise InputError(str(path), "made by another harvest", "delete it, and run again")
    return found


def with_horizon(problem: StepProblem, horizon: int) -> StepProblem:
    """Return the problem with its window cut to ``H = horizon``."""
    columns = horizon + 1
    return replace(
        problem,
        base=problem.base[:, :columns],
        contribution=problem.contribution[:, :columns],
        weights=problem.weights[:columns],
    )


def digest(problem: StepProblem) -> str:
    """Return a digest of the problem data."""
    text = json.dumps(problem.to_mapping(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _instance(document: dict[str, object]) -> StepInstance:
    return StepInstance(
        kind=str(document["kind"]),
        seed=int(str(document["seed"])),
        step=int(str(document["step"])),
        problem=StepProblem.from_mapping(document["problem"]),
    )
