"""The Python API: functions that the commands and `import querytruth` share. They print nothing."""
