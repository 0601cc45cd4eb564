"""Wall clocks of other processes that are wrong by a number of seconds; their steady clocks stay right.

A library of our own, loaded before the C library: the programs and libraries that do this keep names in shared memory,
and a process that was killed leaves them there for the next one with its number.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.programs import needed

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long ahead(void) {
    const char *text = getenv("CLOCK_AHEAD");
    return text ? atol(text) : 0;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
    return result;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec precise;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    if (!result && now) { now->tv_sec = precise.tv_sec; now->tv_usec = precise.tv_nsec / 1000; }
    (void)zone;
    return result;
}
time_t time(time_t *where) {
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return (time_t)-1;
    if (where) *where = precise.tv_sec;
    return precise.tv_sec;
}
"""


def wrong_clock(folder: Path, seconds: int) -> tuple[str, ...]:
    """Return words to put before a command, so that its wall clock is that many seconds ahead (behind if negative).

    Skips the test where there is no C compiler.
    """
    library = folder / "clock.so"
    if not library.exists():
        (folder / "clock.c").write_text(_SOURCE)
        command = [needed("cc"), "-shared", "-fPIC", "-o", str(library), str(folder / "clock.c"), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
    return "env", f"LD_PRELOAD={library}", f"CLOCK_AHEAD={seconds}"
