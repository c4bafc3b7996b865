"""The packaged library: problems are unchanged, solutions are checked, bounds are derived."""

import hashlib
from fractions import Fraction

import pytest

from bfio.library import KINDS, VERSION, Entry, Status, entries, entry, sources, verify
from bfio.library.kind import CLOSED_FORM, canonical, digest_of
from bfio.library.kinds import Latency, written_prices
from bfio.library.store import DATA
from bfio.testing.instances import latency_problem
from formulations.errors import InputError
from formulations.hindsight_latency import PriceCertificate, certified_bound

ALL = entries()
#: What a version froze: how many problems, and a digest of their names and digests.
FROZEN = {1: (298, "7ce9ebfdc93ca21e"), 2: (326, "784d3dd5f1c082b8")}
#: Most bytes of the library in the repository.
MOST_BYTES = 5 * 2**20


def test_every_problem_and_solution_is_what_it_says() -> None:
    """Digests of the problems, feasibility and objectives of the solutions, no contradiction."""
    assert [(v.name, v.faults) for e in ALL if not (v := verify(e, bounds=False)).is_sound] == []


@pytest.mark.parametrize("version", FROZEN)
def test_a_version_is_frozen(version: int) -> None:
    """No problem of a version is ever changed, renamed or dropped; a later one adds behind it."""
    count, digest = FROZEN[version]
    text = canonical({e.name: e.digest for e in ALL[:count]})
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest
    assert FROZEN[VERSION][0] == len(ALL)


def _samples() -> list[Entry]:
    """Return a small entry of each kind and kind of certificate."""
    found: dict[tuple[str, str], Entry] = {}
    for e in ALL:
        if e.best is not None and e.best.certificate != CLOSED_FORM:
            found.setdefault((e.kind_name, e.best.certificate), e)
    return list(found.values())


@pytest.mark.parametrize("e", _samples(), ids=lambda e: e.name)
def test_a_bound_of_each_kind_is_derived_again(e: Entry) -> None:
    """By the verifier of its kind, from the problem data."""
    verdict = verify(e)
    assert verdict.faults == ()
    assert verdict.is_certified


@pytest.mark.deep
def test_every_bound_is_derived_again() -> None:
    """What `bfio library verify` does."""
    assert [(v.name, v.faults) for e in ALL if not (v := verify(e)).is_certified] == []


def test_all_kinds_and_statuses_are_there() -> None:
    """Open ones are the point; every source is given on with its licence."""
    assert {e.kind_name for e in ALL} == set(KINDS)
    assert {e.status for e in ALL if e.kind_name == "step"} == set(Status)
    assert {e.source for e in ALL} == set(sources())
    assert {source.licence for source in sources().values()} == {"MIT", "CC-BY-4.0", "Apache-2.0"}
    for source in sources().values():
        assert source.licence == "MIT" or (DATA / "LICENSES" / f"{source.licence}.txt").is_file()


def test_steps_cover_what_a_step_can_ask() -> None:
    """Sizes, windows, information, memory, speeds, required requests, objectives."""
    steps = [e for e in ALL if e.kind_name == "step"]
    shapes = {(p.num_workers, p.num_steps) for p in (e.problem for e in steps)}
    assert {(g, h) for g in (2, 16, 32, 64) for h in (1, 21, 81)} <= shapes
    for name in ("token_capacity", "token_time", "required", "admit"):
        assert sum(getattr(e.problem, name) is not None for e in steps) >= 8
    assert len({e.problem.objective for e in steps}) == 3
    assert len({e.family for e in steps}) >= 20


def test_no_problem_is_there_twice() -> None:
    """Each is another one."""
    documents = [(e.kind_name, e.digest) for e in ALL]
    assert len(set(documents)) == len(documents)


def test_the_library_is_small() -> None:
    """And it holds no file that no entry names."""
    files = [path for path in DATA.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    names = {f"{e.name}.json.xz" for e in ALL}
    assert {p.name for p in files if p.parent.name == "problems"} == names
    assert {p.name for p in files if p.parent.name == "certificates"} <= names


def test_values_of_continuous_programs_are_fractions() -> None:
    """A fluid optimum is exact."""
    values = [e.best.objective for e in ALL if e.kind_name == "fluid-margin" and e.best]
    assert any(isinstance(value, Fraction) for value in values)


def test_documents_are_those_of_the_problems() -> None:
    """A digest of the library is that of `--write` and of `ProblemData`."""
    for name in ("step-4x8-synthetic-8-w1-h20-memory", "latency-at-once-n6-m20-c"):
        e = entry(name)
        assert e.problem.digest() == e.digest == digest_of(e.problem.to_mapping())


def test_an_unknown_name_is_told_with_a_near_one() -> None:
    """One line."""
    with pytest.raises(InputError, match="no such entry of the library; did you mean step-2x4"):
        entry("step-2x4-synthetic-4-w1-h00")


def test_prices_of_tokens_are_read_as_written() -> None:
    """They prove the same bound, which is more than that by areas."""
    problem = latency_problem(4, [(0, 3, 1), (0, 3, 1)])
    prices = PriceCertificate(8, {}, {0: 2})
    bound = Latency().certified_bound(problem, written_prices(prices))
    assert bound == certified_bound(problem, prices) == 3
