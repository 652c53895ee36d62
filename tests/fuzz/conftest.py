"""Tells how many mutations were tried, from which seed on, and how they ended."""


def pytest_terminal_summary(terminalreporter):
    rows = [
        value
        for report in terminalreporter.stats.get("passed", [])
        for name, value in report.user_properties
        if name == "fuzz"
    ]
    for target, first, n, ended in sorted(rows):
        seeds = f"seeds {first} to {first + n - 1}"
        words = ", ".join(f"{count:,} {word}" for word, count in ended.items() if count)
        terminalreporter.write_line(f"fuzz {target}: {n:,} mutations ({seeds}): {words}")
    if rows:
        total = sum(n for _, _, n, _ in rows)
        terminalreporter.write_line(f"fuzz: {total:,} mutations, none escaped")
