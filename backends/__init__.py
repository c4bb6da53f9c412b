"""The only code that opens files, sockets or models; one file per backend."""
