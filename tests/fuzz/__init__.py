"""A structure-aware fuzzer of every command, option and file.

``python -m tests.fuzz --inputs 10000`` makes inputs from seeds that docs and tests hold, runs each
in a forked copy of a warm process, and judges what comes back (`tests.fuzz.oracle`). A finding is
cut down to what it needs and printed with the command that repeats it; what is mended is kept in
``found/`` and replayed by `tests.fuzz.test_fuzz`.

Left out: named pipes and devices without end, which may block whoever opens them for as long as
their other side likes (`tests.cli.test_errors` has the pipes that commands refuse).
"""
