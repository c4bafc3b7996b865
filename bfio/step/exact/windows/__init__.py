"""The exact method for steps with look-ahead windows; docs/windows.md describes it.

A worker's requests enter the peaks of the window through their sum, their number and the few that
have rows of their own. A linear program over sets of requests per worker, with the share
inequalities of `formulations.step.share_bound` as cuts, bounds the objective and proposes
solutions; its duals are made integers, which a certificate keeps.
"""
