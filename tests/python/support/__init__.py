"""What several tests and scripts share."""
