"""Fused kernels: hand-written forward and backward passes where the speed of a model is decided.

Each stands beside its *composed* form, the same function in basic operations: that is the one to read first, the
one the tests hold the kernel to, and the one that runs where a derivative is itself differentiated.
"""
