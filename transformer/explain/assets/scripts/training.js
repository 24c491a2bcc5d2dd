// training
