"""A task's examples, ready for one predecessor: labelled ones, or text for a language model."""
