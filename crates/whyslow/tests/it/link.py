"""A link between this network namespace and that of a process, with a delay each way and a share of packets lost: what
`tc netem` does, for kernels that have none.

    link.py PID DELAY_MS LOSS_PERCENT

Makes `far` here and `near` there, both down and without an address, prints `up`, and carries packets until it is killed."""

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 1, 0x1000, 0x40000000


def tun(name):
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return file


def enter(pid):
    file = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(file, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def main():
    pid, delay_s, loss = int(sys.argv[1]), float(sys.argv[2]) / 1000, float(sys.argv[3]) / 100
    far = tun("far")
    enter(pid)
    near = tun("near")
    print("up", flush=True)
    other, due, number = {far: near, near: far}, [], 0
    drop = random.Random(1)
    while True:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else None
        for file in select.select([far, near], [], [], wait)[0]:
            packet = os.read(file, 65536)
            number += 1
            if drop.random() >= loss:
                heapq.heappush(due, (time.monotonic() + delay_s, number, other[file], packet))
        while due and due[0][0] <= time.monotonic():
            _, _, to, packet = heapq.heappop(due)
            try:
                os.write(to, packet)
            except OSError:
                pass  # The other end is not up yet, or has no room: lost, as anywhere else.


main()
