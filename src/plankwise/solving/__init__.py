"""Successors that are solved, not trained: their linear maps by least squares, without labels and without gradients

A successor is given what the successors before it give, and each of its linear maps is set so that it gives, as nearly as a linear
map can, what the predecessor gives at the same place. What is kept of the texts are sums, so that memory does not grow with them.
"""
