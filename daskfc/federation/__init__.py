"""Parties, the messages between them, the guard at their doors and the ledger of what left.

Privacy: only declared messages leave a party, each for its receivers alone, whatever a submitter
requests and whoever reaches a port. Hostile code that a site installed and that runs inside a
party's process is not stopped; that takes a network sandbox of the operating system.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
