"""The exact method for steps with look-ahead windows; docs/windows.md describes it.

The loads of a worker depend on the sum and the number of its requests, except for a few requests
with individual load profiles. A linear program over sets of requests per worker bounds the
objective and proposes solutions. The share inequalities of `formulations.step.share_bound` are its
cuts. Its duals are rounded to integers and stored in a certificate.
"""
