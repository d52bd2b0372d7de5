"""Starts a thread and prints at import."""

import threading
import time

print("hello")
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
