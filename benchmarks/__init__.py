"""The benchmark suite: named cases, resumable rows, a report; it runs from a checkout.

``python -m benchmarks list`` names the cases, `benchmarks/README.md` states the protocol.
"""
