"""The derivative rules, by topic: every differentiable basic operation, as mathematics writes it."""
