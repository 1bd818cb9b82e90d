"""Who may join: an authority, certificates for parties, what is revoked, signatures by them.

In: names of parties and a folder. Out: keys and certificates, as files, and checks of others'.
"""
