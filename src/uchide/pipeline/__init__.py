"""From an experiment file to finished artifacts: specification, keys, plan, controller, and the stages' bodies."""
