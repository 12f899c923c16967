// SPDX-License-Identifier: GPL-2.0-only

#define _GNU_SOURCE
#include <signal.h>
#include <unistd.h>

#include "alarms.h"

static __thread volatile sig_atomic_t alarms;

static void note_alarm(int signal)
{
	(void)signal;
	alarms++;
}

void start_alarms(struct call *call, uint64_t microseconds, timer_t *timer)
{
	const struct timespec often = {
		.tv_sec = microseconds / 1000000,
		.tv_nsec = microseconds % 1000000 * 1000,
	};
	const struct itimerspec times = { .it_interval = often, .it_value = often };
	struct sigaction action = { .sa_handler = note_alarm };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM };

	event._sigev_un._tid = gettid();
	alarms = 0;
	if (sigaction(SIGALRM, &action, NULL) || timer_create(CLOCK_MONOTONIC, &event, timer) ||
	    timer_settime(*timer, 0, &times, NULL))
		call->complaint = "there is no timer";
}

unsigned int alarms_handled(void)
{
	return alarms;
}
