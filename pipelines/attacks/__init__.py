"""Attacks on what parties see, without what protects against them and with it."""
