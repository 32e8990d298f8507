"""What needs root: faults injected into system calls, kills at named calls, a disk that is really full."""
