"""Who somebody is: secrets that last, keys of a session, pseudonyms of samples, versions.

In: secrets of stores and of the operating system. Out: keys, pseudonyms, signatures. Nothing secret
leaves these modules but to the process that asked.
"""
