"""Policy graphs that break one rule of the contract each: LinearPG or TableValue with one thing done differently."""
