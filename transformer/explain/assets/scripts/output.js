// output
