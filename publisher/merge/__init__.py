"""What a Publisher of merge replication declares."""
