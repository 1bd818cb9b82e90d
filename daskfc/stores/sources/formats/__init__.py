"""A file a format, each with one subclass of `Source`, which `readers` has a line for."""
