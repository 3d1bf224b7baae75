"""What runs inside of a sandbox to reach the proxy; files to be copied there, never imported."""
