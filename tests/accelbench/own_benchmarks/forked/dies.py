"""Dies as it is imported."""

import os
import signal

print("about to die", flush=True)
os.kill(os.getpid(), signal.SIGSEGV)
