"""The paper's printed values held against the tables of a study."""
