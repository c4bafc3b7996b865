"""Benchmarks of speed, and the numbered studies; they run from a checkout.

``python -m benchmarks list`` lists the benchmarks. `benchmarks/README.md` states the protocol.
"""
