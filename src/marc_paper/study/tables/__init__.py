"""The tables of the study, one experiment a file."""
