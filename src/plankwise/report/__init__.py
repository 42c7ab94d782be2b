"""Shows what was measured: a page, a model card, figures for papers, all from a run's record alone."""
