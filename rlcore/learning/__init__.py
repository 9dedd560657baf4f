"""What the policy graphs of every framework share of learning: their settings, which terms a loss has and what they
count for, schedules, when targets move, and in which order samples are gone through. Tensors are the frameworks'."""
