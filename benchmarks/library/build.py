"""Make the problems of the library. Existing problems are frozen and never replaced."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.library.other_problems import Made, other_problems
from benchmarks.library.step_problems import RUNS, step_problems
from bfio.library.files import digest_of
from bfio.library.store import Entry, entries, write_index, write_problem


def build(folder: Path, traces: Path) -> tuple[int, list[str]]:
    """Write the problems that are missing.

    Returns
    -------
    tuple of (int, list of str)
        Number of new problems, and names of old ones that would come out differently today because
        policies have changed. The old problems are kept.
    """
    known = {e.name: e for e in entries(folder)} if (folder / "index.json").exists() else {}
    made, otherwise = dict(known), []
    order: dict[str, None] = {}
    for kind, name, family, about, source, document in _problems(traces):
        entry = Entry(name, kind, family, about, source, digest_of(document), folder)
        order[name] = None
        if name not in known:
            # If no waiting request ends in the window, known ends change nothing; skip the
            # duplicate.
            if any((e.kind_name, e.digest) == (kind, entry.digest) for e in made.values()):
                continue
            made[name] = entry
            write_problem(folder, entry, document)
        elif entry.digest != known[name].digest:
            otherwise.append(name)
    write_index(folder, [made[name] for name in order | dict.fromkeys(known) if name in made])
    return len(made) - len(known), otherwise


def _problems(traces: Path) -> Iterator[Made]:
    for run in RUNS:
        source = "synthetic" if run.workload.startswith("synthetic") else run.workload
        for name, family, about, problem in step_problems(run, traces):
            yield "step", name, family, about, source, problem.to_mapping()
    yield from other_problems(traces)
