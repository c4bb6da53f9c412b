"""Picture files: read with care in processes of their own, and rendered."""
