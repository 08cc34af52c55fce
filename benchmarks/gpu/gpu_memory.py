"""The bytes of a GPU that are in use, by the driver, while gpu_steps.py measures: ftengine's and its rivals' peaks."""

import shutil
import subprocess
import threading
import time

import gpu_counts


class DriverMemory:
    """Bytes in use on the device by the driver, looked at every 20 ms. Without nvidia-smi nothing is known."""

    def __init__(self):
        self.now = self.peak = None
        self.process = None
        if shutil.which("nvidia-smi") is None:
            return
        command = ["nvidia-smi", "-i", gpu_counts.first_device(), "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "20"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        threading.Thread(target=self.follow, daemon=True).start()
        for _ in range(100):
            if self.now is not None:
                break
            time.sleep(0.05)

    def follow(self):
        for line in self.process.stdout:
            if line.strip().isdigit():
                self.now = int(line) * 2**20
                self.peak = max(self.peak or 0, self.now)

    def begin(self):
        """What is used now; the peak counts from here."""
        time.sleep(0.06 if self.process else 0)
        self.peak = self.now
        return self.now

    def over(self, base):
        return None if base is None or self.peak is None else self.peak - base

    def close(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
