"""Engines that run workers, behind the one small contract of :mod:`rlcore.runtime.base`."""
