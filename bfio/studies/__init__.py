"""Studies: parameter sweeps defined in a file, resumable rows of results, and reports."""
