"""Options that change nothing are refused; each policy's own are read."""

import pytest

from bfio.cli.main import main
from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_parsing import check_options_are_read, options_read
from bfio.decode.policy_registry import built_in
from formulations.errors import InputError

SMALL = ["--requests", "30", "--workers", "2", "--slots", "4"]


NAMES = tuple(vars(PolicyOptions()))


def _watched(name: str, options: PolicyOptions) -> frozenset[str]:
    """Return the options that a policy is seen to read when it is made from these."""
    seen = set()

    class Watched(PolicyOptions):
        def __getattribute__(self, name: str) -> object:
            if name in NAMES:
                seen.add(name)
            return super().__getattribute__(name)

    watched = object.__new__(Watched)
    for field in NAMES:
        object.__setattr__(watched, field, getattr(options, field))
    built_in()[name].factory(watched)
    return frozenset(seen)


@pytest.mark.parametrize(
    "options",
    [
        PolicyOptions(),
        PolicyOptions(second="age"),
        PolicyOptions(second="window", base="power-of-2"),
        PolicyOptions(base="minimum-tokens", pausing_method="exact"),
        PolicyOptions(base="program"),
    ],
)
def test_what_a_policy_declares_to_read_it_reads(options: PolicyOptions) -> None:
    """No more and no less."""
    for name, spec in built_in().items():
        assert options_read(name, options) == _watched(name, options)
        assert spec.uses_horizon == ("horizon" in spec.reads(options))


def test_what_each_policy_reads() -> None:
    """As docs/policies.md says; every option is read by some policy."""
    second = PolicyOptions(second="window")
    read = {name: options_read(name, second) or frozenset() for name in built_in()}
    assert read["fcfs"] == set()
    assert read["power-of-2"] == {"choices"}
    assert read["throttled"] == {"cap_threshold"}
    assert read["minimum-tokens"] == read["total-tokens"] == {"report_every"}
    assert read["attention-dp-balance"] == {"timeout_steps", "batching_steps"}
    assert read["prefix-affinity"] == {"max_load_skew"}
    assert read["consistent-hash"] == {"max_load_skew", "key_blocks", "virtual_nodes"}
    assert read["br-0"] == {
        "threshold",
        "candidates",
        "alpha",
        "beta",
        "key",
        "max_wait",
        "benefit",
    }
    assert read["pausing"] == read["br-0"] | {"base", "max_pauses", "pausing_method"}
    assert read["br-h"] == read["br-0"] | {"gamma", "horizon"}
    assert read["rolling-horizon"] == {"horizon", "moves"}
    assert read["adaptive"] == {"horizon", "threshold", "candidates", "key"}
    assert {"backend", "objective", "time_limit", "horizon", "gamma"} <= read["bf-io"]
    assert set().union(*read.values()) == set(vars(PolicyOptions()))
    of_second = {"slack", "second_proof", "second_horizon"}
    assert options_read("bf-io", PolicyOptions()) == read["bf-io"] - of_second
    assert options_read("module:function", second) is None


@pytest.mark.parametrize(
    ("policies", "given", "message"),
    [
        (
            ["fcfs"],
            {"gamma": "1/2"},
            r"--gamma: fcfs reads no such option; .*bf-io, br-h",
        ),
        (["fcfs", "jsq"], {"cap_threshold": 9}, "run one that does: throttled"),
        (["fcfs:gamma=1/2"], {}, r"policy fcfs:gamma=1/2: fcfs reads no gamma; it has none"),
        (["power-of-2:horizon=3"], {}, "power-of-2 reads no horizon; it reads choices"),
        (["br-0:cap-threshold=3"], {}, "br-0 reads no cap_threshold"),
        (["bf-io"], {"slack": 3}, "--slack: slack changes nothing without second; leave it out"),
        (["fcfs", "bf-io"], {"second_proof": 9}, "second_proof changes nothing without second"),
        (["bf-io:slack=3"], {}, "policy bf-io:slack=3: slack changes nothing without second"),
        (["bf-io:second=age:second-horizon=3"], {}, "changes nothing without second=window"),
        (["bf-io"], {"second": "now", "second_horizon": 3}, "nothing without second=window"),
        (["br-0"], {"slack": 3}, "--slack: br-0 reads no such option; .* that does: bf-io"),
    ],
)
def test_without_effect(policies: list[str], given: dict[str, object], message: str) -> None:
    """The option and who would read it are named."""
    with pytest.raises(InputError, match=message):
        check_options_are_read(policies, PolicyOptions(**given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policies", "given"),
    [
        (["fcfs", "br-h"], {"gamma": "1/2", "horizon": 3}),
        (["throttled:cap-threshold=9"], {}),
        (["bf-io:objective=gap:gamma=1/2:horizon=2"], {}),
        (["bf-io", "bf-io:second=age"], {"slack": 3}),
        (["bf-io:second-horizon=3"], {"second": "window"}),
        (["fcfs"], {"threshold": 7}),
    ],
)
def test_with_effect(policies: list[str], given: dict[str, object]) -> None:
    """One policy that reads an option is enough; a default asks for nothing."""
    check_options_are_read(policies, PolicyOptions(**given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "--policies", "fcfs", "--gamma", "0.5", "--no-plots"], "--gamma: fcfs"),
        (["simulate", "--policy", "jsq", "--choices", "3"], "--choices: jsq"),
        (["simulate", "--policy", "bf-io", "--slack", "3"], "--slack: slack changes nothing"),
        (["simulate", "--policy", "jsq:choices=3"], "jsq reads no choices"),
        (["gap", "--policy", "fcfs", "--cap-threshold", "3", "--no-plots"], "--cap-threshold"),
    ],
)
def test_commands(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    """Before anything runs, in one line."""
    assert main([*arguments, *SMALL]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
    assert shown.err.count("\n") == 1
