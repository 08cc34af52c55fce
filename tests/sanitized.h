// sanitized.h - whether a test runs under a sanitizer. Those look at memory and threads: a kind of work shows them all it has in one
// run, and takes several times as long. What judges figures, orders and planted faults is left to the plain tests.
// Behind cmocka.h, whose skip() it calls.
#ifndef FT_TESTS_SANITIZED_H
#define FT_TESTS_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FT_SANITIZED 1
#endif
#endif
#ifndef FT_SANITIZED
#define FT_SANITIZED 0
#endif

// At the beginning of a test: it is counted as skipped.
#define FT_PLAIN_ONLY()          \
    do {                         \
        if (FT_SANITIZED) skip(); \
    } while (0)

#endif
