/* A wall clock that a test moves and stops: preloaded into a process of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static long long moved;   /* nanoseconds */
static long long stopped; /* nanoseconds since 1970; 0: it runs */

static long long real_now(clockid_t clock, struct timespec *now, int *failed) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    *failed = real(clock, now);
    return now->tv_sec * 1000000000LL + now->tv_nsec;
}

void move_the_clock(double seconds) { moved += (long long)(seconds * 1e9); }

void stop_the_clock(void) {
    struct timespec now;
    int failed;
    stopped = real_now(CLOCK_REALTIME, &now, &failed);
}

void start_the_clock(void) { stopped = 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed;
    long long nanoseconds = real_now(clock, now, &failed);
    if (!failed && clock == CLOCK_REALTIME) {
        nanoseconds = (stopped ? stopped : nanoseconds) + moved;
        now->tv_sec = nanoseconds / 1000000000LL;
        now->tv_nsec = nanoseconds % 1000000000LL;
    }
    return failed;
}
