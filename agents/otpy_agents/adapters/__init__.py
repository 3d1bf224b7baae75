"""The particulars of each agent CLI: the protocol of an adapter, and otpy's own adapters."""
