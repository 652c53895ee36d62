"""The figures of the study, one experiment a file."""
