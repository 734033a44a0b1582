"""Run the command line with ``python -m pausefl``."""

from pausefl.cli import main

main()
