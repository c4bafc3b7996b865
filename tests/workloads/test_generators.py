"""Generated workloads: reproducible, and named ones complete."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.replay import run_violations
from bfio.decode.simulation import simulate
from bfio.workloads import (
    Empirical,
    Geometric,
    Poisson,
    Uniform,
    generate,
    resample,
    synthetic,
    synthetic_names,
)
from bfio.workloads.generators import rescaled_outputs, window, with_output_mean
from bfio.workloads.workload import Workload
from formulations.errors import InputError


def _same(first: Workload, second: Workload) -> bool:
    return (
        np.array_equal(first.prompt_tokens, second.prompt_tokens)
        and np.array_equal(first.output_tokens, second.output_tokens)
        and first.arrival_times == second.arrival_times
    )


def test_lengths_do_not_depend_on_arrivals() -> None:
    """The same seed gives the same requests with and without arrival times."""
    laws = Uniform(1, 50), Geometric(9)
    timed = generate(40, *laws, Poisson(3), rng=np.random.default_rng(4))
    untimed = generate(40, *laws, rng=np.random.default_rng(4))
    assert timed.arrival_times is not None
    assert untimed.arrival_times is None
    assert np.array_equal(timed.prompt_tokens, untimed.prompt_tokens)
    assert np.array_equal(timed.output_tokens, untimed.output_tokens)
    assert timed.provenance["arrivals"] == "poisson(rate=3)"


def test_resample_keeps_pairs() -> None:
    """Prompt i goes with output i, which two separate laws would not keep."""
    source = Workload(np.arange(1, 11), np.arange(1, 11) * 100)
    drawn = resample(source, 500, rng=np.random.default_rng(0))
    assert np.array_equal(drawn.prompt_tokens * 100, drawn.output_tokens)
    assert set(drawn.prompt_tokens.tolist()) == set(range(1, 11))
    apart = generate(
        500,
        Empirical.of(source.prompt_tokens),
        Empirical.of(source.output_tokens),
        rng=np.random.default_rng(0),
    )
    assert not np.array_equal(apart.prompt_tokens * 100, apart.output_tokens)


def test_empty_requests() -> None:
    """Neither 0 requests nor a draw from nothing is possible."""
    empty = Workload(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="the workload has no requests"):
        resample(empty, 1, rng=rng)
    with pytest.raises(InputError, match="num_requests"):
        generate(0, Uniform(1, 2), Uniform(1, 2), rng=rng)


@pytest.mark.parametrize("name", synthetic_names())
@pytest.mark.parametrize("num_requests", [1, 17, 1000])
def test_synthetic(name: str, num_requests: int) -> None:
    """Every name gives the number asked for, the same for the same seed, and says its origin."""
    workload = synthetic(name, num_requests, seed=5)
    assert len(workload) == num_requests
    assert workload.name == name
    assert workload.provenance["seed"] == 5
    assert workload.provenance["synthetic"] == name
    assert _same(workload, synthetic(name, num_requests, seed=5))
    if not name.endswith("-bad") and name != "equal" and num_requests > 1:
        assert not _same(workload, synthetic(name, num_requests, seed=6))


def test_tiles_are_panels_of_factorisations() -> None:
    """T tiles a side, drawn from 8..64: panels of T, T - 1, ... 1 quanta, stretched by e^(0.3 z).

    A job is of a matrix of T panels T times as likely, so the mean is e^0.045·E[T(T+1)/2]/E[T];
    a quantum of a tile takes the cube of its side, 1, 2 or 4 units of length.
    """
    jobs = synthetic("tiles", 20_000, seed=2)
    sides = np.arange(8, 65)
    mean = np.exp(0.3**2 / 2) * (sides * (sides + 1) / 2).mean() / sides.mean()
    assert jobs.output_tokens.mean() == pytest.approx(mean, rel=0.05)
    assert np.unique(jobs.prompt_tokens).tolist() == [100, 800, 6400]
    # Within a matrix jobs get shorter: it begins with its longest.
    first = jobs.output_tokens[: int(np.flatnonzero(np.diff(jobs.prompt_tokens))[0])]
    assert np.corrcoef(first, np.arange(len(first)))[0, 1] < -0.5


def test_mesh_has_blocks_of_all_levels() -> None:
    """256·4^l cells, half as many blocks at each level, the last two alike; half live 60 steps."""
    blocks = synthetic("mesh", 20_000, seed=2)
    cells, counts = np.unique(blocks.prompt_tokens, return_counts=True)
    assert cells.tolist() == [256 * 4**level for level in range(5)]
    assert counts / 20_000 == pytest.approx([1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16], abs=0.01)
    assert np.median(blocks.output_tokens) == pytest.approx(60, abs=2)
    run = simulate(blocks.head(60), "br-h", Cluster(2, 8), drift="age:32*8,32*-8", horizon=5)
    assert run.is_drained
    assert run_violations(run, blocks.head(60), Cluster(2, 8)) == {}


def test_sessions_repeat_what_was_said() -> None:
    """A turn's prompt holds the one before it, block by block, with its answer and a message."""
    chats = synthetic("sessions", 3_000, seed=2)
    hashes = chats.prompt_blocks
    assert hashes is not None
    last: dict[int, int] = {}
    continued = 0
    for i in range(len(chats)):
        full = chats.prompt_tokens[i] // 512
        before = last.get(int(hashes[i][2])) if full > 2 else None
        if before is not None:
            kept = int(chats.prompt_tokens[before] // 512)
            assert hashes[before][:kept].tolist() == hashes[i][:kept].tolist()
            grown = chats.prompt_tokens[i] - chats.prompt_tokens[before]
            assert grown > chats.output_tokens[before]
            continued += 1
        if full > 2:
            last[int(hashes[i][2])] = i
    assert continued > 1_000
    systems = {tuple(hashes[i][:2].tolist()) for i in range(len(chats))}
    assert len(systems) == 8
    assert np.unique(hashes.ids).size > len(chats)


def test_names_are_described() -> None:
    """Each name has one line of description."""
    for name, description in synthetic_names().items():
        assert description, name
        assert "\n" not in description


def test_unknown_name() -> None:
    """A misspelt name is answered with the closest one."""
    with pytest.raises(InputError, match=r"unknown workload 'geometrik'; did you mean geometric"):
        synthetic("geometrik", 1, seed=0)
    with pytest.raises(InputError, match="seed"):
        synthetic("demo", 1, seed=-1)
    with pytest.raises(InputError, match="requests"):
        synthetic("demo", 0, seed=0)


def test_overloaded_is_certified_for_the_default_cluster() -> None:
    """5,000 requests with outputs of mean 200 overload 16 x 72 slots for hundreds of steps."""
    steps = synthetic("overloaded", 5000, seed=1).provenance["overloaded_steps"]
    assert isinstance(steps, int)
    assert steps > 100


def test_rescaling_by_hand() -> None:
    """Lengths 1, 2, 6 (mean 3) to mean 5: factors 5/3 give 1.67, 3.33, 10, rounded 2, 3, 10."""
    assert rescaled_outputs(np.array([1, 2, 6]), 5).tolist() == [2, 3, 10]
    # To mean 1: 0.33, 0.67, 2 become 1 (the least length), 1, 2.
    assert rescaled_outputs(np.array([1, 2, 6]), 1).tolist() == [1, 1, 2]
    # Lengths 1, 3 to mean 1: exactly 0.5 and 1.5, halves go up.
    assert rescaled_outputs(np.array([1, 3]), 1).tolist() == [1, 2]


@given(
    st.lists(st.integers(1, 10**9), min_size=1, max_size=30),
    st.integers(1, 10**6),
)
def test_rescaling_is_exact_rounding(lengths: list[int], mean: int) -> None:
    """Each length is the exact rational, rounded half up, and 1 at least; huge values included."""
    factor = Fraction(mean * len(lengths), sum(lengths))
    expected = [max(1, floor(length * factor + Fraction(1, 2))) for length in lengths]
    assert rescaled_outputs(np.array(lengths), mean).tolist() == expected


def test_rescaling_keeps_all_else() -> None:
    """Prompts, arrival times and name; the provenance says what was done."""
    load = Workload([7, 8], [1, 3], (Fraction(0), Fraction(1)), "w", {"file": "f"})  # type: ignore[arg-type]
    found = with_output_mean(load, 4)
    assert found.output_tokens.tolist() == [2, 6]
    assert found.prompt_tokens.tolist() == [7, 8]
    assert found.arrival_times == load.arrival_times
    assert found.provenance == {"file": "f", "output_mean": 4}


@given(st.integers(1, 60), st.integers(1, 60))
def test_windows_share_out_all_requests(num_requests: int, count: int) -> None:
    """In order, each request once, sizes at most 1 apart; none of them empty."""
    load = Workload(np.arange(1, num_requests + 1), np.ones(num_requests, dtype=np.int64))
    if count > num_requests:
        # Then the first window is empty: floor(n/count) = 0.
        with pytest.raises(InputError, match="use at most one window per request"):
            window(load, 0, count)
        return
    parts = [window(load, k, count).prompt_tokens.tolist() for k in range(count)]
    assert [prompt for part in parts for prompt in part] == list(range(1, num_requests + 1))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(("index", "count"), [(2, 2), (-1, 2), (0, 0)])
def test_windows_that_do_not_exist_are_refused(index: int, count: int) -> None:
    """Windows count from 0."""
    with pytest.raises(InputError, match="window"):
        window(Workload([1, 1], [1, 1]), index, count)  # type: ignore[arg-type]
