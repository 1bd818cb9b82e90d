"""The maths of the baselines: arrays in, arrays out; no parties."""
