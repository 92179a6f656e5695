"""`python -m skidpad`: the command line."""

from skidpad.cli.main import main

if __name__ == "__main__":
    main()
