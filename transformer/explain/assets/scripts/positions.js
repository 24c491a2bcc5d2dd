// positions
