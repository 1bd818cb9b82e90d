"""The maths of kCAGC: arrays in, arrays out; no parties."""
