"""The programs that reach the proxy from inside a sandbox; copied there, never imported."""
