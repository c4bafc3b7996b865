"""Total tokens: as `minimum-tokens`, and the output that is not in a report yet counts."""

from dataclasses import dataclass

from bfio.common.options import CheckedOptions, option, whole
from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec
from bfio.decode.reports import ReportedTokens, reports_kernel


@dataclass(frozen=True)
class TotalTokensOptions(CheckedOptions):
    """Options of `total-tokens`: reports ride on streamed output, as the source measured."""

    report_every: int = option(60, whole(1), "N", "steps between two reports (60)")


SPEC = PolicySpec(
    name="total-tokens",
    factory=lambda options: ReportedTokens(options.report_every, growth=1),
    options=TotalTokensOptions(),
    summary="minimum-tokens, and a token per step and request since the report (--report-every)",
    source="sglang issue 16080, pull request 25235",
    dispatch=BOTH_DISPATCHES,
    kernel=reports_kernel(growth=1),
    breaks_ties=False,
)
