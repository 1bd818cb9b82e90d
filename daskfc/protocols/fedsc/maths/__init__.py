"""The maths of FedSC: arrays in, arrays out; no parties."""
