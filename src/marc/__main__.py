"""`python -m marc`: the command line where `marc` is not on the path."""

from marc.cli.app import main

main()
