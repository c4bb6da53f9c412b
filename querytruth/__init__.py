"""The command line: parses arguments, calls a flow or a function, prints the result."""
