"""Telemetry: how old the loads are that a policy sees, and how many reports of them are lost.

At each step every worker reports what it holds: its load, its requests, what is bound to it, its
memory in use and its projected loads. A report of step k arrives at step k + ``delay``, or never,
with probability ``loss``; until another one arrives the last one stands. Slots are no part of it:
a router knows what it has sent and what has ended.
"""
