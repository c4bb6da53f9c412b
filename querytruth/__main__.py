"""`python -m querytruth`, the same as the command."""

from querytruth.cli.app import main

if __name__ == "__main__":
    main()
