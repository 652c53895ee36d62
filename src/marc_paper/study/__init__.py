"""The study: every table and figure of the paper, from a plan of streams and spaces.

A plan (`plan.py`) names streams, a predictor, spaces and grids. Each experiment is one
pure function from shared work (`work.py`: streams, sweeps, geometry, runs) to tables and figures
(`artifacts.py`). `make.py` makes those that are not made yet, into a folder (`folder.py`).
"""
