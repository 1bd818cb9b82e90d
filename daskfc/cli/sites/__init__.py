"""Commands for sites and for the server: party, scheduler, certificates, policy, budget."""
