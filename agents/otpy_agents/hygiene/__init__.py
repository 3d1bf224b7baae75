"""Chores of the hygiene daemon: what mortals, runs and killed hosts leave behind."""
