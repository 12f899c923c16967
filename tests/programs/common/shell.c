// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads commands and runs them; shell.h says what they look like.
 */

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"
#include "shell.h"

/* One line of input. */
struct job {
	char *line;
	const struct command *command;
	const char *tag;
	struct call call;
	int forks;
};

static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;
/* Those of the program. */
static const struct command *own_commands;

uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000ULL + time.tv_nsec / 1000;
}

/* --- arguments */

const char *word(struct call *call)
{
	if (call->next < call->count)
		return call->words[call->next++];
	call->complaint = "an argument is missing";
	return "0";
}

uint64_t number(struct call *call)
{
	const char *text = word(call);
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (end == text || *end)
		call->complaint = "an argument is wrong";
	return value;
}

void *address(struct call *call)
{
	return (void *)(uintptr_t)number(call);
}

size_t bytes(struct call *call, const char *text, uint8_t *room, size_t most)
{
	unsigned int byte;
	size_t n;

	for (n = 0; n < most && sscanf(text, "%2x", &byte) == 1 && text[1]; n++) {
		room[n] = byte;
		text += 2;
	}
	if (*text && strcmp(text, "-"))
		call->complaint = "an argument is not hexadecimal, or too long";
	return n;
}

/* --- answers */

void answer(struct call *call, const char *format, ...)
{
	size_t room = sizeof(call->answer) - call->used;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(call->answer + call->used, room, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= room)
		call->complaint = "there is no room for all of it";
	else
		call->used += length;
}

void answer_number(struct call *call, const char *name, uint64_t value)
{
	answer(call, ", \"%s\": %llu", name, (unsigned long long)value);
}

void answer_hex(struct call *call, const uint8_t *bytes, size_t length)
{
	size_t i;

	answer(call, "\"");
	for (i = 0; i < length; i++)
		answer(call, "%02x", bytes[i]);
	answer(call, "\"");
}

void answer_bytes(struct call *call, const char *name, const uint8_t *bytes, size_t length)
{
	answer(call, ", \"%s\": ", name);
	answer_hex(call, bytes, length);
}

/* Needs the output. */
static void put(const char *text, size_t length)
{
	ssize_t written;

	while (length) {
		written = write(STDOUT_FILENO, text, length);
		if (written < 0)
			_exit(EXIT_FAILURE);
		text += written;
		length -= written;
	}
}

void print_lines(const char *lines, size_t length)
{
	pthread_mutex_lock(&output);
	put(lines, length);
	pthread_mutex_unlock(&output);
}

/* --- commands that all programs have */

static void identify(struct call *call)
{
	answer_number(call, "pid", getpid());
}

static void quit(struct call *call)
{
	_exit(number(call));
}

static void become(struct call *call)
{
	const char *program = word(call), *argument = word(call);

	execl(program, program, argument, (char *)NULL);
	call->complaint = "there is no such program";
}

static const struct command process_commands[] = {
	{ "identify", identify },
	{ "exit", quit },		/* STATUS */
	{ "exec", become },		/* PROGRAM ARGUMENT */
	{ NULL, NULL },
};

static const struct command *find_in(const struct command *commands, const char *name)
{
	while (commands->name && strcmp(commands->name, name))
		commands++;
	return commands->name ? commands : NULL;
}

static const struct command *find(const char *name)
{
	const struct command *command = find_in(own_commands, name);

	if (!command)
		command = find_in(memory_commands, name);
	if (!command)
		command = find_in(process_commands, name);
	return command;
}

/* --- jobs */

/* In one write: a child's answer does not come between a line of its parent's, which has another lock. */
static void put_answer(const char *head, size_t length, const struct call *call)
{
	static char line[128 + LONGEST_ANSWER + 2];

	memcpy(line, head, length);
	memcpy(line + length, call->answer, call->used);
	length += call->used;
	memcpy(line + length, "}\n", 2);
	put(line, length + 2);
}

static void run(struct job *job)
{
	struct call *call = &job->call;
	uint64_t start = now(), end;
	char head[128];
	int length;

	if (job->command)
		job->command->run(call);
	else
		call->complaint = "there is no such command";
	end = now();
	if (call->complaint)
		length = snprintf(head, sizeof(head), "{\"tag\": %s, \"complaint\": \"%s\"}\n",
				  job->tag, call->complaint);
	else
		length = snprintf(head, sizeof(head), "{\"tag\": %s, \"us\": %llu", job->tag,
				  (unsigned long long)(end - start));
	pthread_mutex_lock(&output);
	if (call->complaint)
		put(head, length);
	else
		put_answer(head, length, call);
	pthread_mutex_unlock(&output);
}

static void run_in_child(struct job *job)
{
	pid_t child;

	/* The child gets the lock in a state in which it can take it. */
	pthread_mutex_lock(&output);
	child = fork();
	pthread_mutex_unlock(&output);
	if (!child) {
		run(job);
		_exit(EXIT_SUCCESS);
	}
	waitpid(child, NULL, 0);
}

static void finish(struct job *job)
{
	if (job->forks)
		run_in_child(job);
	else
		run(job);
	free(job->line);
	free(job);
}

/* Signals interrupt what threads wait for; the first thread has to read its input. */
static void *thread(void *job)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	finish(job);
	return NULL;
}

static void start(struct job *job)
{
	pthread_t id;

	if (pthread_create(&id, NULL, thread, job))
		exit(EXIT_FAILURE);
	pthread_detach(id);
}

/* Takes a line apart and runs it. */
static void take(char *line)
{
	struct job *job = calloc(1, sizeof(*job));
	int in_thread = 0;
	char *rest, *text;

	if (!job)
		exit(EXIT_FAILURE);
	job->line = line;
	job->tag = strtok_r(line, "\n ", &rest);
	if (!job->tag) {
		free(line);
		free(job);
		return;
	}
	text = strtok_r(NULL, "\n ", &rest);
	if (text && !strcmp(text, "&")) {
		in_thread = 1;
		text = strtok_r(NULL, "\n ", &rest);
	}
	if (text && !strcmp(text, "fork")) {
		job->forks = 1;
		text = strtok_r(NULL, "\n ", &rest);
	}
	job->command = text ? find(text) : NULL;
	while (job->call.count < MAX_WORDS && (text = strtok_r(NULL, "\n ", &rest)))
		job->call.words[job->call.count++] = text;
	if (in_thread)
		start(job);
	else
		finish(job);
}

static void ignore(int signal)
{
	(void)signal;
}

static void handle_signals(void)
{
	struct sigaction interruption = { .sa_handler = ignore };
	struct sigaction pause = { .sa_handler = ignore, .sa_flags = SA_RESTART };
	sigset_t set;

	/* Without SA_RESTART: system calls that a signal meets end with EINTR. */
	sigaction(SIGUSR1, &interruption, NULL);
	sigaction(SIGUSR2, &pause, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int shell(const struct command *commands)
{
	char *line = NULL;
	size_t room = 0;

	own_commands = commands;
	catch_faults();
	handle_signals();
	while (getline(&line, &room, stdin) > 0) {
		take(line);
		line = NULL;
		room = 0;
	}
	return EXIT_SUCCESS;
}
