"""From pictures to a feature store."""
