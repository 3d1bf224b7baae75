"""Decisions of a run: values, tables and a machine that perform nothing and read no clock."""
