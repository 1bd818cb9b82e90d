"""Central algorithms that are only compared with: arrays in, arrays out."""
