// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A program that uses the Dispatcher, as its input tells, a line at a time:
 *
 *	set NAME VALUE, unset NAME	the environment
 *	start COMMAND			in a thread of its own; "join" waits for all of them
 *	await TEXT			until the file that $CALLS names contains the text
 *	fork				a child does what follows up to the line "parent"
 *	find ROOM ... cleanup		one for each function
 *	errno SESSION			what it is after PXIMC_assertEvent
 *
 * What functions return is written to the output, a line for each call.
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "statuses.h"

#define PROTOCOL 0xABCD1000U
#define UNTOUCHED 0xEEEEEEEEU
#define MAX_THREADS 8

static pthread_t threads[MAX_THREADS];
static unsigned int running;

static uint32_t word(void)
{
	const char *text = strtok(NULL, " ");

	return text ? (uint32_t)strtoul(text, NULL, 0) : 0;
}

static void list_interfaces(uint32_t room, int null)
{
	uint32_t ids[256], actual = UNTOUCHED, i;
	tPXIMC_Status status;
	char line[1024];
	int used;

	for (i = 0; i < 256; i++)
		ids[i] = UNTOUCHED;
	status = PXIMC_findInterfaces(room, null ? NULL : ids, null > 1 ? NULL : &actual);
	used = snprintf(line, sizeof(line), "find %s %x:", status_name(status), actual);
	for (i = 0; i < 256 && ids[i] != UNTOUCHED; i++)
		used += snprintf(line + used, sizeof(line) - used, " %u", ids[i]);
	puts(line);
}

static void request(const char *kind, uint32_t interface, int null)
{
	const uint8_t *data = (const uint8_t *)"window";
	uint32_t number = UNTOUCHED, *session = null ? NULL : &number;
	tPXIMC_Status status;

	if (!strcmp(kind, "server"))
		status = PXIMC_requestWindowLogicalAsServer(interface, PROTOCOL, PXIMC_MAXIMUM_WINDOW_SIZE,
							    2, 3, 4, 5, data, 6, session);
	else if (!strcmp(kind, "client"))
		status = PXIMC_requestWindowLogicalAsClient(interface, PROTOCOL, 0x100000001ULL,
							    2, 3, 4, 5, session);
	else if (!strcmp(kind, "peer"))
		status = PXIMC_requestWindowLogicalAsPeer(interface, PROTOCOL, 1, 2, 3, 4, 5,
							  data, 6, session);
	else if (!strcmp(kind, "physical-server"))
		status = PXIMC_requestWindowPhysicalAsServer(interface, PROTOCOL, 1, 2,
							     0xF00000003ULL, data, 6, session);
	else
		status = PXIMC_requestWindowPhysicalAsClient(interface, PROTOCOL, 1, 2, 3, session);
	printf("%s %s %u\n", kind, status_name(status), number == UNTOUCHED ? 0 : number);
}

static void wait_for_partner(uint32_t session, uint32_t timeout)
{
	void *remote = NULL, *local = NULL;
	uint64_t remote_size = 0, local_size = 0;
	tPXIMC_Status status;

	status = PXIMC_waitForConnection(session, timeout, &remote, &remote_size, &local, &local_size);
	printf("connect %s %lx %llx %lx %llx\n", status_name(status), (unsigned long)remote,
	       (unsigned long long)remote_size, (unsigned long)local,
	       (unsigned long long)local_size);
}

static void await(const char *text)
{
	static char calls[1 << 16];
	size_t length = 0;
	FILE *file;

	do {
		usleep(1000);
		file = fopen(getenv("CALLS"), "r");
		if (!file)
			continue;
		length = fread(calls, 1, sizeof(calls) - 1, file);
		fclose(file);
		calls[length] = 0;
	} while (!length || !strstr(calls, text));
}

/* One call of a function; the rest of the line is with strtok(). */
static void call(const char *name)
{
	uint32_t a = UNTOUCHED, b = 0, c = 0, d = 0, value[4] = { 0, 0, 0, 0 };
	uint64_t address = 0;
	tPXIMC_Status status;

	if (!strcmp(name, "find")) {
		list_interfaces(word(), 0);
		return;
	}
	if (!strcmp(name, "find-null")) {
		b = word();
		list_interfaces(b, word());
		return;
	}
	if (strstr(name, "server") || strstr(name, "client") || !strcmp(name, "peer")) {
		b = word();
		request(name, b, word());
		return;
	}
	b = word();
	c = word();
	if (!strcmp(name, "query")) {
		status = PXIMC_queryInterfaceInformation(b, c, 4, value, &a);
		printf("query %s %u %.4s\n", status_name(status), a, (const char *)value);
	} else if (!strcmp(name, "wait-interface")) {
		status = PXIMC_waitForInterfaceEvent(b, c, &a);
		printf("wait-interface %s %u\n", status_name(status), a);
	} else if (!strcmp(name, "windows")) {
		status = PXIMC_findWindows(b, c, value, &a);
		printf("windows %s %u: %u\n", status_name(status), a, value[0]);
	} else if (!strcmp(name, "window")) {
		d = word();
		status = PXIMC_queryWindowInformation(b, c, d, 4, value, &a);
		printf("window %s %u %.4s\n", status_name(status), a, (const char *)value);
	} else if (!strcmp(name, "connect")) {
		wait_for_partner(b, c);
	} else if (!strcmp(name, "address")) {
		status = PXIMC_getPhysicalAddress(b, &address);
		printf("address %s %llx\n", status_name(status), (unsigned long long)address);
	} else if (!strcmp(name, "access")) {
		status = PXIMC_enableDeviceAccess(b, c, 255, 31, 7);
		printf("access %s\n", status_name(status));
	} else if (!strcmp(name, "assert")) {
		printf("assert %s\n", status_name(PXIMC_assertEvent(b)));
	} else if (!strcmp(name, "errno")) {
		errno = 0;
		PXIMC_assertEvent(b);
		printf("errno %d\n", errno);
	} else if (!strcmp(name, "wait")) {
		status = PXIMC_waitForSessionEvent(b, c, &a);
		printf("wait %s %u\n", status_name(status), a);
	} else if (!strcmp(name, "close")) {
		printf("close %s\n", status_name(PXIMC_closeWindow(b)));
	} else if (!strcmp(name, "cleanup")) {
		printf("cleanup %s\n", status_name(PXIMC_cleanup()));
	} else {
		fprintf(stderr, "what is %s?\n", name);
		exit(1);
	}
}

/* The only command that is run in threads: strtok() is not for several. */
static void *wait_in_thread(void *argument)
{
	uint32_t session = *(uint32_t *)argument, reason = UNTOUCHED;
	tPXIMC_Status status;

	status = PXIMC_waitForSessionEvent(session, PXIMC_TIMEOUT_INFINITE, &reason);
	printf("waited %s %u\n", status_name(status), reason);
	free(argument);
	return NULL;
}

static void start(void)
{
	uint32_t *session = malloc(sizeof(*session));

	if (!session || running == MAX_THREADS)
		exit(1);
	*session = word();
	if (pthread_create(&threads[running++], NULL, wait_in_thread, session))
		exit(1);
}

int main(void)
{
	char line[256], *name;
	int skipping = 0, is_child = 0;
	pid_t child = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		name = strtok(line, " ");
		if (!name)
			continue;
		if (!strcmp(name, "parent")) {
			if (is_child)
				return 0;
			skipping = 0;
		} else if (skipping) {
			continue;
		} else if (!strcmp(name, "fork")) {
			child = fork();
			is_child = !child;
			skipping = child > 0;
			/* The child goes first, so that the output has an order. */
			if (child > 0 && waitpid(child, NULL, 0) != child)
				return 1;
		} else if (!strcmp(name, "set")) {
			name = strtok(NULL, " ");
			setenv(name, strtok(NULL, ""), 1);
		} else if (!strcmp(name, "unset")) {
			unsetenv(strtok(NULL, " "));
		} else if (!strcmp(name, "start")) {
			start();
		} else if (!strcmp(name, "join")) {
			while (running)
				pthread_join(threads[--running], NULL);
		} else if (!strcmp(name, "await")) {
			await(strtok(NULL, ""));
		} else {
			call(name);
		}
	}
	return 0;
}
