// context
