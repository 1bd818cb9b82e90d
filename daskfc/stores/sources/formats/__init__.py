"""One file per format, each with a subclass of `Source` that `readers` lists."""
