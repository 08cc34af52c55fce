"""Hosts on one machine that are joined by links which are slow or cut as told: network namespaces, each with a TUN device at its
end of a link whose packets this program carries. No module of the kernel but tun is needed (netem is not there everywhere), and a
cut is what an unplugged cable somewhere between two switches is: both sides see nothing at all. Needs root.

    with Network(["one", "two"]) as network:      # and `server`, which both reach at network.server("one")
        network.run("one", ["ping", network.server("one")])
        network.delay["one"] = 0.005              # seconds, one way
        network.cut.add("one")
"""

import fcntl
import heapq
import itertools
import os
import selectors
import shutil
import struct
import subprocess
import threading
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000


def missing():
    """Why there can be no such network here; None: there can."""
    if os.getuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "there is no `ip`: apt-get install iproute2"
    probe = f"ftprobe{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False).returncode != 0:
        return "network namespaces cannot be made"
    subprocess.run(["ip", "netns", "delete", probe], check=True)
    return None if os.path.exists("/dev/net/tun") else "there is no /dev/net/tun"


class Network:
    def __init__(self, hosts):
        self.hosts, self.delay, self.cut = list(hosts), dict.fromkeys(hosts, 0), set()
        self.mark = str(os.getpid())
        self.ends, self.made = [], []
        self.waker = os.pipe()

    def space(self, name):
        return f"ft{self.mark}{name}"

    def server(self, host):
        return f"10.77.{self.hosts.index(host)}.1"

    def run(self, name, command, **words):
        return subprocess.Popen(["ip", "netns", "exec", self.space(name), *command], **words)

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True)

    def make_space(self, name):
        self.ip("netns", "add", self.space(name))
        self.made.append(name)
        self.ip("-n", self.space(name), "link", "set", "lo", "up")

    def make_end(self, name, number, address, other):
        device = f"ft{number}x{self.mark}"[:15]
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
        self.ip("link", "set", device, "netns", self.space(name))
        self.ip("-n", self.space(name), "addr", "add", address, "peer", other, "dev", device)
        self.ip("-n", self.space(name), "link", "set", device, "up", "txqueuelen", "1000")
        return descriptor

    def __enter__(self):
        self.make_space("server")
        for i, host in enumerate(self.hosts):
            self.make_space(host)
            here, there = f"10.77.{i}.2", f"10.77.{i}.1"
            self.ends.append((host, self.make_end(host, 2 * i, here, there), self.make_end("server", 2 * i + 1, there, here)))
        self.carrier = threading.Thread(target=self.carry, daemon=True)
        self.carrier.start()
        return self

    def carry(self):
        """Each packet after its link's delay, in order; of a link that is cut none, not even those on their way."""
        wait, queue, order = selectors.DefaultSelector(), [], itertools.count()
        wait.register(self.waker[0], selectors.EVENT_READ)
        for host, one, other in self.ends:
            wait.register(one, selectors.EVENT_READ, (host, other))
            wait.register(other, selectors.EVENT_READ, (host, one))
        while True:
            now = time.monotonic()
            while queue and queue[0][0] <= now:
                _, _, host, target, packet = heapq.heappop(queue)
                if host not in self.cut:
                    try:
                        os.write(target, packet)
                    except OSError:
                        pass  # a full queue drops it, as everywhere
            for key, _ in wait.select(max(0, queue[0][0] - time.monotonic()) if queue else None):
                if key.data is None:
                    return
                try:
                    packet = os.read(key.fd, 65536)
                except BlockingIOError:
                    continue
                host, target = key.data
                heapq.heappush(queue, (time.monotonic() + self.delay[host], next(order), host, target, packet))

    def __exit__(self, *_):
        os.write(self.waker[1], b"x")
        if self.ends:
            self.carrier.join()
        for name in self.made:
            for line in subprocess.run(["ip", "netns", "pids", self.space(name)], capture_output=True, text=True, check=False).stdout.split():
                try:
                    os.kill(int(line), 9)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "delete", self.space(name)], check=False)
        for _, one, other in self.ends:
            os.close(one)
            os.close(other)
