"""Simulators with one agent: Gymnasium's classic control, and small worlds of our own."""
