"""What is particular to each agent CLI: what an adapter is, and those that come with otpy."""
