"""Minimum tokens: what workers reported that they hold, and what was sent to them since."""

from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec
from bfio.decode.reports import ReportedTokens, reports_kernel

#: How late the tokens were in the version that was taken out again (sglang pull request 11170).
REPORT_EVERY = 40

SPEC = PolicySpec(
    name="minimum-tokens",
    factory=lambda options: ReportedTokens(options.report_every or REPORT_EVERY, growth=0),
    summary="fewest tokens held at the last report plus prompts sent since (--report-every)",
    source="sglang pull request 7379",
    dispatch=BOTH_DISPATCHES,
    kernel=reports_kernel(REPORT_EVERY, growth=0),
    defaults={"report_every": REPORT_EVERY},
    reads=lambda options: ("report_every",),
)
