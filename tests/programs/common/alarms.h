/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Signals that interrupt a thread again and again, while it calls a function.
 */
#ifndef ALARMS_H
#define ALARMS_H

#include <stdint.h>
#include <time.h>

#include "shell.h"

/* Interrupt this thread by SIGALRM so often; system calls that it meets end with EINTR. */
void start_alarms(struct call *call, uint64_t microseconds, timer_t *timer);

/* How many this thread has handled since. */
unsigned int alarms_handled(void);

#endif /* ALARMS_H */
