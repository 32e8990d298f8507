"""`make bench`: every bar of the project as a ratio against a reference that runs beside it, in one run."""
