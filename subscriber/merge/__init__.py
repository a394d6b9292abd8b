"""What a Subscriber of merge replication is given."""
