/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * What newer compilers call of ThreadSanitizer and GCC's library does not have: its own versions of
 * the C library's functions look at the memory.
 */

#include <string.h>

void *__tsan_memset(void *to, int byte, size_t len)
{
	return memset(to, byte, len);
}

void *__tsan_memcpy(void *to, const void *from, size_t len)
{
	return memcpy(to, from, len);
}

void *__tsan_memmove(void *to, const void *from, size_t len)
{
	return memmove(to, from, len);
}
