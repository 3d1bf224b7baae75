"""The control plane: works an operator's tasks off and believes only what rules have checked."""
