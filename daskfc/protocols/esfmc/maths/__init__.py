"""The server's part of ESFMC as functions of arrays: clustering and assignments."""
