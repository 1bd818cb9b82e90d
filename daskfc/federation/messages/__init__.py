"""What crosses between parties: declared messages, their bytes on the wire, envelopes around them.

In: arrays and numbers of a step. Out: bytes, and messages read from bytes that are checked against
their declaration. Everything else in `daskfc.federation` may import this; it imports none of it.
"""
