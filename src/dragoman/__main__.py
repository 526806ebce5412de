"""`python -m dragoman`: the command, where no console script is on the path."""

from dragoman.cli.main import main

if __name__ == "__main__":
    main()
