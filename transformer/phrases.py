"""Parts of sentences."""


def counted(n: int, noun: str) -> str:
    """Return how many there are of something.

    >>> counted(1, "step"), counted(2500, "step")
    ('1 step', '2,500 steps')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
