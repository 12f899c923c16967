// SPDX-License-Identifier: GPL-2.0
/*
 * Makes calls of the fabric's device as its input tells, for tests; tests/rig/sharing.py
 * is the other end. Each line of input is a command, each line of output the answer:
 *
 *	TAG [&] COMMAND [ARGUMENT...]
 *	{"tag": TAG, ...}
 *
 * With "&" the command is run in a thread, and the next line is read at once.
 *
 *	ioctl NUMBER HEX	the structure; its errno and bytes are answered
 *	buffer			the address of BUFFER bytes that structures may point to
 *	map OFFSET LENGTH [ro]	the address, or errno
 *	unmap ADDRESS LENGTH
 *	memory LENGTH		the address of memory of the process, all zero: huge pages
 *				if there is room for one, else pages that are no run
 *	write ADDRESS HEX
 *	read ADDRESS LENGTH
 *	repeat COUNT NUMBER HEX	many calls; how many succeeded before one failed
 *	guess FIRST COUNT STEP NUMBER HEX
 *				calls with so many handles; how many have not failed with ENOENT
 *	guessmap FIRST COUNT	maps so many pages one by one; how many are there
 *	scan ADDRESS LENGTH	how many words are not zero
 *	open COUNT		opens the device so often; how often that succeeded
 *	child NUMBER HEX	the errno of a call that a child makes
 *	pass NUMBER HEX		the same, of a process that has got the file over a socket
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICE "/dev/mp_fabric"
#define BUFFER 8192
#define LONGEST (4 * BUFFER)

static int device;
static uint8_t buffer[BUFFER];
static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

/* The bytes that a word says; how many there are. */
static size_t bytes(const char *text, uint8_t *room, size_t most)
{
	unsigned int byte;
	size_t n;

	for (n = 0; text && n < most && sscanf(text, "%2x", &byte) == 1 && text[1]; n++) {
		room[n] = byte;
		text += 2;
	}
	return n;
}

/* Answers with a number and bytes. */
static void answer(const char *tag, const char *name, long long number, const uint8_t *data,
		   size_t length)
{
	size_t n;

	pthread_mutex_lock(&output);
	printf("{\"tag\": %s, \"%s\": %lld, \"bytes\": \"", tag, name, number);
	for (n = 0; n < length; n++)
		printf("%02x", data[n]);
	printf("\"}\n");
	fflush(stdout);
	pthread_mutex_unlock(&output);
}

/* Copies as programs do that share memory: each byte once. */
static void copy(volatile uint8_t *to, const volatile uint8_t *from, size_t length)
{
	while (length--)
		*to++ = *from++;
}

/* Takes a file from a socket, and passes it on if it is given one. */
static int over_socket(int socket, int file)
{
	char byte = 0;
	struct iovec vector = { &byte, 1 };
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct msghdr message = {
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof(control.room),
	};
	struct cmsghdr *header;

	if (file < 0) {
		if (recvmsg(socket, &message, 0) != 1)
			return -1;
		header = CMSG_FIRSTHDR(&message);
		if (header)
			memcpy(&file, CMSG_DATA(header), sizeof(file));
		return file;
	}
	header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(file));
	memcpy(CMSG_DATA(header), &file, sizeof(file));
	return sendmsg(socket, &message, 0) == 1 ? file : -1;
}

/* The errno of a call by a child, which has the file from its parent, or over a socket. */
static int by_child(int is_passed, unsigned long number, uint8_t *data)
{
	int sockets[2], status, file = device;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return -1;
	child = fork();
	if (!child) {
		if (is_passed) {
			close(device);
			file = over_socket(sockets[1], -1);
		}
		_exit(file < 0 ? 255 : ioctl(file, number, data) ? errno : 0);
	}
	if (is_passed)
		over_socket(sockets[0], device);
	close(sockets[0]);
	close(sockets[1]);
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/* Memory that begins where a huge page can. */
static void *memory(size_t length)
{
	const size_t huge = 2 << 20;
	uint8_t *start = mmap(NULL, length + huge, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED)
		return NULL;
	madvise(start, length + huge, length < huge ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	start += -(uintptr_t)start & (huge - 1);
	/* The kernel gives pages in a row as a rule: not in this direction. */
	for (size_t at = length; at; at -= at < 4096 ? at : 4096)
		((volatile uint8_t *)start)[at - 1] = 0;
	return start;
}

static void *run(void *argument)
{
	char *line = argument, *state, *word;
	char *words[8] = { NULL };
	static const char separators[] = { ' ', '\n', 0 };
	uint8_t data[BUFFER];
	uint64_t numbers[8] = { 0 };
	int count = 0, first = 1, failed = 0;
	size_t length;

	for (word = strtok_r(line, separators, &state); word && count < 8;
	     word = strtok_r(NULL, separators, &state))
		words[count++] = word;
	if (count > 1 && !strcmp(words[1], "&"))
		first = 2;
	for (int n = first + 1; n < count; n++)
		numbers[n - first - 1] = strtoull(words[n], NULL, 0);
	word = count > first ? words[first] : "";

	if (!strcmp(word, "ioctl")) {
		length = bytes(words[first + 2], data, sizeof(data));
		failed = ioctl(device, numbers[0], data) ? errno : 0;
		answer(words[0], "errno", failed, data, length);
	} else if (!strcmp(word, "repeat")) {
		uint64_t done = 0;

		bytes(words[first + 3], data, sizeof(data));
		while (done < numbers[0] && !ioctl(device, numbers[1], data))
			done++;
		answer(words[0], "done", done, NULL, 0);
	} else if (!strcmp(word, "guess")) {
		uint32_t handle = numbers[0];
		uint64_t found = 0;

		for (uint64_t n = 0; n < numbers[1]; n++, handle += numbers[2]) {
			/* A call that has succeeded may have changed it. */
			if (!n || found)
				bytes(words[first + 5], data, sizeof(data));
			memcpy(data + sizeof(handle), &handle, sizeof(handle));
			if (!ioctl(device, numbers[3], data) || errno != ENOENT)
				found++;
		}
		answer(words[0], "done", found, NULL, 0);
	} else if (!strcmp(word, "guessmap")) {
		uint64_t found = 0;

		for (uint64_t page = numbers[0]; page < numbers[0] + numbers[1]; page++) {
			void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, device, page * 4096);

			if (at != MAP_FAILED) {
				munmap(at, 4096);
				found++;
			}
		}
		answer(words[0], "done", found, NULL, 0);
	} else if (!strcmp(word, "scan")) {
		const volatile uint64_t *at = (void *)(uintptr_t)numbers[0];
		uint64_t found = 0;

		for (uint64_t n = 0; n < numbers[1] / sizeof(*at); n++)
			found += at[n] != 0;
		answer(words[0], "done", found, NULL, 0);
	} else if (!strcmp(word, "open")) {
		uint64_t done = 0;

		while (done < numbers[0] && open(DEVICE, O_RDWR | O_CLOEXEC) >= 0)
			done++;
		answer(words[0], "done", done, NULL, 0);
	} else if (!strcmp(word, "child") || !strcmp(word, "pass")) {
		bytes(words[first + 2], data, sizeof(data));
		failed = by_child(!strcmp(word, "pass"), numbers[0], data);
		answer(words[0], "done", failed, NULL, 0);
	} else if (!strcmp(word, "buffer")) {
		answer(words[0], "address", (uintptr_t)buffer, NULL, 0);
	} else if (!strcmp(word, "map")) {
		int access = count > first + 3 ? PROT_READ : PROT_READ | PROT_WRITE;
		void *at = mmap(NULL, numbers[1], access, MAP_SHARED, device, numbers[0]);

		if (at == MAP_FAILED)
			answer(words[0], "errno", errno, NULL, 0);
		else
			answer(words[0], "address", (uintptr_t)at, NULL, 0);
	} else if (!strcmp(word, "unmap")) {
		failed = munmap((void *)(uintptr_t)numbers[0], numbers[1]) ? errno : 0;
		answer(words[0], "errno", failed, NULL, 0);
	} else if (!strcmp(word, "memory")) {
		answer(words[0], "address", (uintptr_t)memory(numbers[0]), NULL, 0);
	} else if (!strcmp(word, "write")) {
		length = bytes(words[first + 2], data, sizeof(data));
		copy((volatile uint8_t *)(uintptr_t)numbers[0], data, length);
		answer(words[0], "errno", 0, NULL, 0);
	} else if (!strcmp(word, "read") && numbers[1] <= sizeof(data)) {
		copy(data, (volatile uint8_t *)(uintptr_t)numbers[0], numbers[1]);
		answer(words[0], "errno", 0, data, numbers[1]);
	} else {
		answer(words[0] ? words[0] : "0", "errno", -1, NULL, 0);
	}
	free(line);
	return NULL;
}

int main(void)
{
	static char line[LONGEST];
	pthread_t thread;

	device = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (device < 0) {
		perror(DEVICE);
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		char *copied = strdup(line);

		if (!copied)
			return 1;
		if (!strstr(copied, " & ")) {
			run(copied);
			continue;
		}
		if (pthread_create(&thread, NULL, run, copied))
			return 1;
		pthread_detach(thread);
	}
	return 0;
}
