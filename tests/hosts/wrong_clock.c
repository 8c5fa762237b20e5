/* A clock that is wrong by WRONG_CLOCK_SECS, for LD_PRELOAD.

The monotonic clock and the kernel's (by which it waits, and stamps files) stay right.  So every absolute time of the
wrong clock that is given to the kernel is put right: it is known by its size, since a monotonic time is small. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
  static int known;
  static long secs;
  if (!known) {
    const char *text = getenv("WRONG_CLOCK_SECS");
    secs = text ? atol(text) : 0;
    known = 1;
  }
  return secs;
}

static const struct timespec *right(const struct timespec *wrong, struct timespec *copy) {
  if (wrong == NULL || wrong->tv_sec < 1000000000) return wrong;
  *copy = *wrong;
  copy->tv_sec -= offset();
  return copy;
}

static long kernel(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  if (result < 0 && result > -4096) {
    errno = (int)-result;
    return -1;
  }
  return result;
}

int clock_gettime(clockid_t id, struct timespec *time) {
  long result = kernel(SYS_clock_gettime, id, (long)time, 0, 0, 0, 0);
  if (!result && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) time->tv_sec += offset();
  return (int)result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  long result = kernel(SYS_gettimeofday, (long)time, (long)zone, 0, 0, 0, 0);
  if (!result) time->tv_sec += offset();
  return (int)result;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}

long syscall(long number, ...) {
  long v[6];
  struct timespec copy;
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) v[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_clock_gettime) return clock_gettime((clockid_t)v[0], (struct timespec *)v[1]);
  if (number == SYS_futex && (v[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET)
    v[3] = (long)right((const struct timespec *)v[3], &copy);
  return kernel(number, v[0], v[1], v[2], v[3], v[4], v[5]);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *time) {
  struct timespec copy;
  static __typeof__(&pthread_cond_timedwait) next;
  if (!next) next = (__typeof__(next))dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  return next(cond, mutex, right(time, &copy));
}

int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t id, const struct timespec *time) {
  struct timespec copy;
  return NEXT(pthread_cond_clockwait)(cond, mutex, id, right(time, &copy));
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict time) {
  struct timespec copy;
  return NEXT(sem_timedwait)(sem, right(time, &copy));
}

int sem_clockwait(sem_t *restrict sem, clockid_t id, const struct timespec *restrict time) {
  struct timespec copy;
  return NEXT(sem_clockwait)(sem, id, right(time, &copy));
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict time) {
  struct timespec copy;
  return NEXT(pthread_mutex_timedlock)(mutex, right(time, &copy));
}
