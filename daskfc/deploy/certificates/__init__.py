"""Who may join: an authority, certificates for parties, revocations, signatures.

In: names of parties and a folder. Out: keys and certificates, as files, and checks of others'.
"""
