"""The claims of the papers as executable objects with verdicts."""
