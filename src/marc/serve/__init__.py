"""The memory as a service: it loses nothing, and proves its worth before it answers.

- one memory: `config` what it is made of, `served` itself, `log` what happened to it, in SQLite,
  `effects` what a step changed, `snapshots`, `trial` the judge over late labels, `history`
- all of a folder: `turns` and `hosted`, one writer and one order for each, and `service`
"""
