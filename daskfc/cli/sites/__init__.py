"""Commands of whoever runs a site or the server: party, scheduler, certificates, policy, budget."""
