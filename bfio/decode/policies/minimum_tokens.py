"""Minimum tokens: what workers reported that they hold, and what was sent to them since."""

from dataclasses import dataclass

from bfio.common.options import CheckedOptions, option, whole
from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec
from bfio.decode.reports import ReportedTokens, reports_kernel


@dataclass(frozen=True)
class MinimumTokensOptions(CheckedOptions):
    """Options of `minimum-tokens`, as in the version that was taken out (sglang pull 11170)."""

    report_every: int = option(40, whole(1), "N", "steps between two reports (40)")


SPEC = PolicySpec(
    name="minimum-tokens",
    factory=lambda options: ReportedTokens(options.report_every, growth=0),
    options=MinimumTokensOptions(),
    summary="fewest tokens held at the last report plus prompts sent since (--report-every)",
    source="sglang pull request 7379",
    dispatch=BOTH_DISPATCHES,
    kernel=reports_kernel(growth=0),
    breaks_ties=False,
)
