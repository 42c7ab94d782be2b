"""`python -m plankwise`, and `torchrun -m plankwise` for several processes."""

from plankwise.cli import main

main()
