"""The conformance kit: rules for each kind of part, and what runs them."""
