// heads
