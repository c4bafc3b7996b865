"""Methods for the step program (IO), on step problems harvested from simulated runs."""
