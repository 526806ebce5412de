"""`python -m dragoman`: the command line without a console script on the path."""

from dragoman.cli.main import main

if __name__ == "__main__":
    main()
