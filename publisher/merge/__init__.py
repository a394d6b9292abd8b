"""Declaration of merge publications at a Publisher."""
