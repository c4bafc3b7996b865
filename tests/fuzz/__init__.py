"""A structure-aware fuzzer of every command, option and file.

``python -m tests.fuzz --inputs 10000`` makes inputs from seeds in docs and tests, runs each in a
forked copy of a warm process, and checks the outcome (`tests.fuzz.oracle`). A finding is minimised
and printed with the command that reproduces it. Fixed findings are kept in ``found/`` and replayed
by `tests.fuzz.test_fuzz`.

Not covered: named pipes and endless devices, which may block indefinitely
(`tests.cli.test_errors` has the pipes that commands refuse).
"""
