// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Copies a file from one host to another; see vipl_copy(1).
 *
 * The sender sends parts, the last of them shorter than the others (it may be empty). The receiver
 * tells how many bytes it has written so far whenever there is room for more parts, and at the end.
 * vi_copy(1) does the same: each can be the other side of the other one.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"
#include "end.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DISCRIMINATOR "vi_copy"
#define CREDIT (WINDOW / 2)	/* the receiver tells how far it is after so many parts */
#define TOLD 8			/* bytes of such a message: a number, little-endian */

static const char usage[] =
	"usage: vipl_copy receive FILE [--patience MS] [--json]\n"
	"       vipl_copy send HOST FILE [--patience MS] [--json]\n";

static FILE *open_file(const char *name, const char *mode)
{
	FILE *file = fopen(name, mode);

	if (!file)
		fail_file(name);
	return file;
}

/* Writes a part that was received, and makes room for another one; its length. */
static size_t store(struct end *end, FILE *file, const char *name)
{
	VIP_DESCRIPTOR *done = take(end, RECEIVE);
	size_t length;

	check_end(end);
	length = done->CS.Length;
	if (fwrite(done->DS[0].Local.Data.Address, 1, length, file) != length)
		fail_file(name);
	post_part(end);
	return length;
}

static void sync_file(FILE *file, const char *name)
{
	if (fflush(file) || fsync(fileno(file)))
		fail_file(name);
}

static unsigned long long receive_file(struct end *end, const char *name)
{
	FILE *file = open_file(name, "wb");
	unsigned long long bytes = 0;
	unsigned long parts;
	size_t length;

	for (parts = 0; parts < WINDOW; parts++)
		post_part(end);
	serve(end, DISCRIMINATOR);
	parts = 0;
	do {
		length = store(end, file, name);
		bytes += length;
		if (length < PART)
			sync_file(file, name);
		if (length < PART || ++parts % CREDIT == 0) {
			put_number(end->out, bytes, TOLD);
			tell(end, TOLD);
		}
	} while (length == PART);
	check_end(end);
	see_off(end);
	fclose(file);
	return bytes;
}

/* How many bytes the receiver has. */
static unsigned long long told(struct end *end)
{
	unsigned long long bytes;

	take(end, RECEIVE);
	check_end(end);
	bytes = get_number(end->in, TOLD);
	post_receive(end);
	return bytes;
}

static unsigned long long send_file(struct end *end, VIP_NET_ADDRESS *receiver, const char *name)
{
	FILE *file = open_file(name, "rb");
	unsigned long long bytes = 0, written = 0;
	unsigned long parts, tellings = 0;
	size_t length;

	for (parts = 0; parts < WINDOW; parts++)
		post_receive(end);
	parts = 0;
	ask(end, receiver);
	do {
		/* A receive waits for each part that the receiver has not told of. */
		if (parts - tellings * CREDIT == WINDOW) {
			written = told(end);
			tellings++;
		}
		length = fread(end->out, 1, PART, file);
		if (ferror(file))
			fail_file(name);
		tell(end, length);
		check_end(end);
		bytes += length;
		parts++;
	} while (length == PART);
	/* The last part is told of as well. */
	for (; tellings * CREDIT < parts; tellings++)
		written = told(end);
	if (written != bytes)
		fail("the receiver has not what was sent");
	fclose(file);
	return bytes;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "patience", required_argument, NULL, 'p' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct shape shape = { VIP_SERVICE_RELIABLE_DELIVERY, 1, 0, PATIENCE_MS };
	unsigned long long bytes;
	const char *const *words;
	struct end end;
	int option, count, receiving, json = 0;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		}
		if (option == 'j')
			json = 1;
		else if (option != 'p' || !parse_number(optarg, 1, ULONG_MAX, &shape.patience))
			fail_usage(usage);
	}
	words = (const char *const *)argv + optind;
	count = argc - optind;
	receiving = count == 2 && !strcmp(words[0], "receive");
	if (!receiving && (count != 3 || strcmp(words[0], "send")))
		fail_usage(usage);
	open_end(&end, &shape);
	if (receiving)
		bytes = receive_file(&end, words[1]);
	else
		bytes = send_file(&end, find_server(&end, words[1], DISCRIMINATOR), words[2]);
	leave(&end);
	check("VipCloseNic", VipCloseNic(end.nic));
	printf(json ? "{\"bytes\": %llu}\n" : "%llu bytes\n", bytes);
	return EXIT_SUCCESS;
}
