"""Setup of a Subscriber of merge replication."""
