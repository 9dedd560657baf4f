"""What tests of rlcore and of its plugins are made of. Ships with the kernel; imports no framework and no pytest."""
