"""What exporters and importers share: text files, images, captions and Parquet shards."""
