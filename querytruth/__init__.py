"""The command line: parses, calls a flow or a function, prints."""
