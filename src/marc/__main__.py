"""`python -m marc`: the command line where `marc` is not on the path."""

from marc.cli.app import main

if __name__ == "__main__":
    main()
