"""Squared distances of rows that stay at the clients, by Lagrange coded computing."""
