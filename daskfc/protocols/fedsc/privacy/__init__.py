"""What FedSC claims and what it leaks: scales of its noise, bounds on errors, attacks."""
