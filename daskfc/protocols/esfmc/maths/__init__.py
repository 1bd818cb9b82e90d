"""The server's part of ESFMC as functions of arrays: linking samples, clustering, assignments."""
