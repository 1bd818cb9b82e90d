"""Secure computations: what several protocols compute on data that nobody may see."""
