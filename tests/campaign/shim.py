"""Kills a process at its Nth step: a write into the folder of its outputs, or a rename, a removal or a creation there.

A library in C, compiled here and loaded by LD_PRELOAD, counts the steps of Python, Java and Rust alike. Where there is
no C compiler, an audit hook counts those of Python, which then lack the writes. Writes by memory maps, and those by
C's streams, are no steps: only kills at random find them.
"""

import ctypes
import mmap
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static volatile long *steps; /* [0] done so far, [1] the last one; shared with the process that waits */
static char folder[4096];

void campaign_arm(const char *path, long *shared) { strncpy(folder, path, sizeof folder - 1); steps = shared; }

static int is_inside(const char *path) {
    return path && (path[0] != '/' || !strncmp(path, folder, strlen(folder)));
}
static int is_open_inside(int descriptor) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 1) return 0;
    path[length] = 0;
    return path[0] == '/' && is_inside(path);
}
static int is_last(void) { return __sync_add_and_fetch(&steps[0], 1) == steps[1]; }
static void end(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, #name)
/* The last write is done by half. */
#define WRITE(name, parameters, whole, half) \
    ssize_t name parameters { REAL(name); \
        if (steps && is_open_inside(fd) && is_last()) { if (n / 2) (void)!real half; end(); } \
        return real whole; }
#define STEP(name, parameters, arguments, path) \
    int name parameters { REAL(name); if (steps && is_inside(path) && is_last()) end(); return real arguments; }

WRITE(write, (int fd, const void *b, size_t n), (fd, b, n), (fd, b, n / 2))
WRITE(pwrite, (int fd, const void *b, size_t n, off_t at), (fd, b, n, at), (fd, b, n / 2, at))
WRITE(pwrite64, (int fd, const void *b, size_t n, off64_t at), (fd, b, n, at), (fd, b, n / 2, at))
STEP(rename, (const char *a, const char *b), (a, b), b)
STEP(renameat, (int d, const char *a, int e, const char *b), (d, a, e, b), b)
STEP(renameat2, (int d, const char *a, int e, const char *b, unsigned f), (d, a, e, b, f), b)
STEP(link, (const char *a, const char *b), (a, b), b)
STEP(linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f), b)
STEP(unlink, (const char *a), (a), a)
STEP(unlinkat, (int d, const char *a, int f), (d, a, f), a)
STEP(rmdir, (const char *a), (a), a)
STEP(mkdir, (const char *a, mode_t m), (a, m), a)
int ftruncate64(int fd, off64_t n) {
    REAL(ftruncate64); if (steps && is_open_inside(fd) && is_last()) end(); return real(fd, n);
}
int ftruncate(int fd, off_t n) {
    REAL(ftruncate); if (steps && is_open_inside(fd) && is_last()) end(); return real(fd, n);
}
"""
LIBRARY = "kill_at_a_step.so"
EVENTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.truncate"}


def compiled(folder: Path) -> Path | None:
    """The library, compiled in a folder; None without a C compiler."""
    compiler, library = shutil.which("cc") or shutil.which("gcc"), folder / LIBRARY
    if compiler is None or sys.platform != "linux":
        return None
    (folder / "shim.c").write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-w", "-o", library, folder / "shim.c", "-ldl"], check=True)
    return library


class Steps:
    """The steps of a child that is forked after this was made; ``done`` is read by its parent."""

    def __init__(self):
        self.memory = mmap.mmap(-1, 16)
        self.counts = (ctypes.c_long * 2).from_buffer(self.memory)

    @property
    def done(self) -> int:
        return self.counts[0]

    def arm(self, folder: Path, last: int) -> None:
        """Count from now on, in this process, and kill it at its step number ``last``; 0 is for never."""
        self.counts[0], self.counts[1] = 0, last
        try:
            arm = ctypes.CDLL(None).campaign_arm
        except AttributeError:
            sys.addaudithook(self._hook)
        else:
            arm(os.fsencode(folder), ctypes.byref(self.counts))

    def _hook(self, event, arguments):
        is_step = event in EVENTS or (event == "open" and arguments[1] and set(str(arguments[1])) & set("wax+"))
        if is_step:
            self.counts[0] += 1
            if self.counts[0] == self.counts[1]:
                os.kill(os.getpid(), signal.SIGKILL)
