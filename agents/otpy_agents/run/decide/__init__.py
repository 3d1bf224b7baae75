"""What a run does next: values, tables and a machine that perform nothing and read no clock."""
