"""What exporters and importers share: lines and records of text files, pictures in and out, tables in shards."""
