"""The one door for models: loaded, described, planned for, saved. Nothing else in the project loads a model by itself."""
