"""The frontier: what can be had instead of a predecessor, by score, speed and size, for one task on this machine

Models (the predecessor, successors of several depths, and what a user would pick instead), each run by several runtimes in several
precisions, are points; each is scored on dev, sized on disk and timed in turn with all others. Points that another one beats in
everything are dominated; what is left is the frontier.
"""
