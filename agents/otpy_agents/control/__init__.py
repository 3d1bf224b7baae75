"""The control plane: works an operator's tasks off and believes only what rules have checked.

Each role has a module or package of its own, and a contract of the imports holds them apart
(CTL-03): what an operator orders (`orders`), the loop, the state, prompts, validation, halts,
interrogation, audit, and the stores of state and queue. `server` puts them to work in a tree.
"""
