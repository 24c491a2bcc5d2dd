"""The explain page: its data, the file, the command and the server, and what a browser makes of it."""
