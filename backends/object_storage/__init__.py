"""Published versions in object storage (S3): `set_urls` names them, `bucket` is the only one that connects."""
