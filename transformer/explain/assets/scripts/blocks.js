// blocks
