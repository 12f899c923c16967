// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Measures how long messages take to the echo server and back.
 *
 *	vipl_latency SERVER [--rounds N] [--sizes N,...] [--wait] [--reception] [--json]
 *
 * SERVER is a name of vipl.conf(5), or a number of a host. Half a round trip is printed for each
 * size: the least, the median and the 99th percentile, in microseconds. With --wait the client
 * sleeps for each answer; otherwise it looks all the time.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIZE 4096		/* most that the server takes */
#define WARM_UP 100

struct options {
	unsigned long rounds;
	const char *sizes;
	VIP_RELIABILITY_LEVEL level;
	int wait, json;
};

static const struct option long_options[] = {
	{ "rounds", required_argument, NULL, 'r' },
	{ "sizes", required_argument, NULL, 's' },
	{ "wait", no_argument, NULL, 'w' },
	{ "reception", no_argument, NULL, 'c' },
	{ "json", no_argument, NULL, 'j' },
	{ NULL, 0, NULL, 0 },
};

static double now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

/* Takes a descriptor of a queue, by looking or by sleeping. */
static void take(VIP_VI_HANDLE vi, int receive, int wait)
{
	double end = now_us() + RESPONSE_MS * 1e3;
	VIP_DESCRIPTOR *done;
	VIP_RETURN result;

	if (wait) {
		result = receive ? VipRecvWait(vi, RESPONSE_MS, &done) :
				   VipSendWait(vi, RESPONSE_MS, &done);
	} else {
		do
			result = receive ? VipRecvDone(vi, &done) : VipSendDone(vi, &done);
		while (result == VIP_NOT_DONE && now_us() < end);
	}
	check(receive ? "the answer" : "the message", result);
}

static double round_trip(VIP_VI_HANDLE vi, struct message *messages, size_t size, int wait)
{
	double start;

	prepare(&messages[1], SIZE);
	check("VipPostRecv", VipPostRecv(vi, messages[1].descriptor, messages[1].memory));
	prepare(&messages[0], size);
	start = now_us();
	check("VipPostSend", VipPostSend(vi, messages[0].descriptor, messages[0].memory));
	take(vi, 1, wait);
	start = now_us() - start;
	take(vi, 0, wait);
	return start;
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

static void measure(VIP_VI_HANDLE vi, struct message *messages, size_t size,
	const struct options *options)
{
	double *times = calloc(options->rounds, sizeof(*times));
	unsigned long n, rounds = options->rounds;

	if (!times) {
		fprintf(stderr, "FAILED: no memory\n");
		exit(EXIT_FAILURE);
	}
	for (n = 0; n < WARM_UP; n++)
		round_trip(vi, messages, size, options->wait);
	for (n = 0; n < rounds; n++)
		times[n] = round_trip(vi, messages, size, options->wait) / 2;
	qsort(times, rounds, sizeof(*times), compare);
	printf(options->json ?
	       "{\"bytes\": %zu, \"rounds\": %lu, \"min\": %.3f, \"median\": %.3f, \"p99\": %.3f}\n" :
	       "%10zu %10lu %13.3f %13.3f %14.3f\n",
	       size, rounds, times[0], times[rounds / 2], times[rounds * 99 / 100]);
	free(times);
}

static void parse(int argc, char **argv, struct options *options)
{
	int option;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (option) {
		case 'r':
			options->rounds = strtoul(optarg, NULL, 10);
			break;
		case 's':
			options->sizes = optarg;
			break;
		case 'w':
			options->wait = 1;
			break;
		case 'c':
			options->level = VIP_SERVICE_RELIABLE_RECEPTION;
			break;
		case 'j':
			options->json = 1;
			break;
		default:
			exit(2);
		}
	}
	if (optind != argc - 1 || !options->rounds) {
		fprintf(stderr, "usage: %s SERVER [--rounds N] [--sizes N,...] [--wait]\n", argv[0]);
		fprintf(stderr, "       [--reception] [--json]\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct options options = { 1000, "1,64,1024,4096", VIP_SERVICE_RELIABLE_DELIVERY, 0, 0 };
	VIP_VI_ATTRIBUTES attributes = { 0, SIZE, NULL, NULL, VIP_FALSE, VIP_FALSE };
	VIP_NIC_ATTRIBUTES nic_attributes;
	VIP_NET_ADDRESS *local, *remote;
	struct message *messages;
	const char *at;
	char *next;
	VIP_NIC_HANDLE nic;
	VIP_VI_HANDLE vi;

	parse(argc, argv, &options);
	attributes.ReliabilityLevel = options.level;
	nic = open_nic(&nic_attributes);
	local = make_address(&nic_attributes, "latency");
	remote = make_address(&nic_attributes, "");
	check("VipNSInit", VipNSInit(nic, NULL));
	check("VipNSGetHostByName", VipNSGetHostByName(nic, argv[optind], remote, 0));
	set_discriminator(remote, ECHO_DISCRIMINATOR);
	check("VipCreatePtag", VipCreatePtag(nic, &attributes.Ptag));
	check("VipCreateVi", VipCreateVi(nic, &attributes, NULL, NULL, &vi));
	messages = make_messages(nic, attributes.Ptag, 2, SIZE);
	connect_to(vi, local, remote);
	if (!options.json)
		printf("%10s %10s %13s %13s %14s\n", "bytes", "rounds", "min us", "median us",
			"99 % us");
	for (at = options.sizes; *at; at = *next ? next + 1 : next) {
		unsigned long size = strtoul(at, &next, 10);

		if (next == at || size < 1 || size > SIZE || (*next && *next != ',')) {
			fprintf(stderr, "FAILED: sizes are 1 to %d\n", SIZE);
			return 2;
		}
		measure(vi, messages, size, &options);
	}
	check("VipDisconnect", VipDisconnect(vi));
	check("VipCloseNic", VipCloseNic(nic));
	free(local);
	free(remote);
	return EXIT_SUCCESS;
}
