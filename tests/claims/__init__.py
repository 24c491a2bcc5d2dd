"""What "Transformers and Attention Is All You Need" says of a transformer, claim by claim, on this one.

The tests stand in the order in which the explanation makes its claims.  Where a claim says "exactly" there is no
tolerance.
"""
