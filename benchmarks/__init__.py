"""Speed, measured: minigrad beside PyTorch on the same processor, step by step in turn."""
