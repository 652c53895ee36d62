"""The memory as a service: it loses nothing, and proves its worth before it answers.

- `config` what a memory is made of · `served` one memory · `log` what happened to it, in SQLite ·
  `effects` what a step changed · `trial` the judge over late labels · `history` its past in few numbers
- `queue` and `service`: every memory of a folder, each with one writer and a total order
"""
