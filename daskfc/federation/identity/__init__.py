"""Identities: lasting secrets, keys of a session, pseudonyms of samples, package versions.

In: secrets of stores and of the operating system. Out: keys, pseudonyms, signatures. Secrets are
given only to the process that calls.
"""
