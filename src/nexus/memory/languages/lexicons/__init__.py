"""The languages, one module for each, as data alone."""
