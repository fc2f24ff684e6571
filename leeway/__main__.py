"""`python -m leeway` is `leeway`."""

from leeway.cli import main

if __name__ == "__main__":
    main()
