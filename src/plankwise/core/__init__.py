"""Torch only: slots, masks and collapse for any nn.Module with a chain of blocks."""
