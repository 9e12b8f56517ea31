/* What shared memory costs at least: a robust mutex of libc's that processes share. */

#include <pthread.h>

int make(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t kind;
    int failed = pthread_mutexattr_init(&kind);
    if (!failed)
        failed = pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    if (!failed)
        failed = pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    return failed ? failed : pthread_mutex_init(mutex, &kind);
}

int lock_and_unlock(pthread_mutex_t *mutex, long count)
{
    for (long done = 0; done < count; done++) {
        int failed = pthread_mutex_lock(mutex);
        if (!failed)
            failed = pthread_mutex_unlock(mutex);
        if (failed)
            return failed;
    }
    return 0;
}
