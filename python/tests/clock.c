/* A wall clock that a test moves: preloaded into a process of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static long long moved; /* nanoseconds */

void move_the_clock(double seconds) { moved += (long long)(seconds * 1e9); }

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && clock == CLOCK_REALTIME) {
        long long nanoseconds = now->tv_sec * 1000000000LL + now->tv_nsec + moved;
        now->tv_sec = nanoseconds / 1000000000LL;
        now->tv_nsec = nanoseconds % 1000000000LL;
    }
    return failed;
}
