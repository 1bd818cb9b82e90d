"""How one source is divided among clients, as a storage file says.

In: a storage file. Out: whose rows and columns go to which client. It reads no data.
"""
