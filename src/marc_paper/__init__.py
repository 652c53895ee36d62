"""The paper: its study, its printed values and their verification."""
