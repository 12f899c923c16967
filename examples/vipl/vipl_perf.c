// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Measures messages and remote memory access between two hosts: latency, bandwidth, connections per
 * second; see vipl_perf(1).
 *
 * Each measurement has a connection of its own, which begins with a plan of the client. The server
 * answers with where its memory is, and does the other half. vi_perf(1) does the same: each can be
 * the other side of the other one.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"
#include "end.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DISCRIMINATOR "vi_perf"
#define WARM_UP 50			/* rounds before a latency is measured */
#define CREDIT (WINDOW / 2)		/* messages that the server tells of at once */
#define ROUNDS_FOR_CONNECTION 10	/* of other measurements take as long as one connection */
#define PAUSE_MOST 1000000		/* microseconds */
#define SIZES_MOST 32
#define ROUNDS_MOST (UINT32_MAX - WARM_UP - CREDIT)

/* The client has ended if it measures nothing. */
enum kind { NOTHING, LATENCY, BANDWIDTH, CONNECT, KINDS };
/* Their numbers are those of descriptors as well. */
enum operation { OF_SEND, OF_WRITE, OF_READ, OPERATIONS };

static const char *const kind_names[] = { "", "latency", "bandwidth", "connect", NULL };
static const char *const operation_names[] = { "send", "write", "read", NULL };
static const char *const level_names[] = { "delivery", "reception", NULL };

static const char usage[] =
	"usage: vipl_perf server [--once] [options]\n"
	"       vipl_perf client HOST [--only LIST] [--operations LIST] [--sizes LIST]\n"
	"                 [--rounds N] [--json] [options]\n"
	"options: [--level delivery|reception] [--wait] [--cq] [--pause US]\n"
	"         [--patience MS]\n";

struct options {
	struct shape shape;
	int once, json;
	unsigned int kinds, operations;		/* a bit for each */
	unsigned long sizes[SIZES_MOST];
	size_t size_count;
	unsigned long rounds;
	unsigned long pause;			/* microseconds before each operation of a latency */
};

/* What a client tells a server before a measurement, and where the teller's memory is. */
struct plan {
	enum kind kind;
	enum operation operation;
	unsigned long size, rounds;
	struct place place;
};

/* Bytes of a plan: four numbers of four bytes, an address of eight, a handle of four. */
#define PLAN 28

static void put_plan(char *to, const struct plan *plan)
{
	put_number(to, plan->kind, 4);
	put_number(to + 4, plan->operation, 4);
	put_number(to + 8, plan->size, 4);
	put_number(to + 12, plan->rounds, 4);
	put_number(to + 16, plan->place.address, 8);
	put_number(to + 24, plan->place.handle, 4);
}

/* Reads what the other side has sent; whether it makes sense. */
static int get_plan(const char *from, struct plan *plan)
{
	VIP_UINT64 kind = get_number(from, 4), operation = get_number(from + 4, 4);

	plan->size = get_number(from + 8, 4);
	plan->rounds = get_number(from + 12, 4);
	plan->place.address = get_number(from + 16, 8);
	plan->place.handle = get_number(from + 24, 4);
	if (kind >= KINDS || operation >= OPERATIONS)
		return 0;
	plan->kind = kind;
	plan->operation = operation;
	return plan->size >= 1 && plan->size <= SIZE_MOST && plan->rounds <= ROUNDS_MOST;
}

/* Sends a plan, with where the end's own memory is. */
static void tell_plan(struct end *end, const struct plan *plan)
{
	struct plan own = *plan;

	own.place.address = (VIP_UINT64)(uintptr_t)end->in;
	own.place.handle = end->memory;
	put_plan(end->out, &own);
	tell(end, PLAN);
}

/* Takes a plan; whether there is one that makes sense. */
static int take_plan(struct end *end, struct plan *plan)
{
	if (!take(end, RECEIVE) || !get_plan(end->in, plan))
		return 0;
	post_receive(end);
	return 1;
}

/* Pauses, if that is asked for; how many nanoseconds it was. */
static VIP_UINT32 pause_for(unsigned long us)
{
	struct timespec time = { us / 1000000, us % 1000000 * 1000 };
	double start = now_us(), ns;

	if (!us)
		return 0;
	nanosleep(&time, NULL);
	ns = (now_us() - start) * 1e3;
	return ns < UINT32_MAX ? (VIP_UINT32)ns : UINT32_MAX;
}

/*
 * Posts an operation of a latency, which the other side notices. How many nanoseconds the pause
 * before it was goes along.
 */
static void post_noticed(struct end *end, const struct plan *plan, VIP_UINT32 pause)
{
	VIP_UINT16 control = plan->operation;

	if (control == OF_WRITE || (control == OF_SEND && pause))
		control |= VIP_CONTROL_IMMEDIATE;
	post_send_with(end, control, &plan->place, plan->size, pause);
}

/* How many nanoseconds the other side has paused before it has sent that. */
static VIP_UINT32 pause_of(const VIP_DESCRIPTOR *descriptor)
{
	int has = descriptor && descriptor->CS.Status & VIP_STATUS_IMMEDIATE;

	return has ? descriptor->CS.ImmediateData : 0;
}

static void post_window(struct end *end)
{
	int n;

	for (n = 0; n < WINDOW; n++)
		post_receive(end);
}

/* --- the server */

static void serve_latency(struct end *end, const struct plan *plan, unsigned long pause)
{
	unsigned long n;

	for (n = 0; n < plan->rounds + WARM_UP && take(end, RECEIVE); n++) {
		post_receive(end);
		post_noticed(end, plan, pause_for(pause));
		take(end, SEND);
	}
}

static void serve_messages(struct end *end, const struct plan *plan)
{
	unsigned long n;

	for (n = 1; n <= plan->rounds && take(end, RECEIVE); n++) {
		post_receive(end);
		if (n % CREDIT == 0)
			tell_plan(end, plan);
	}
}

static void serve_connections(struct end *end, unsigned long rounds)
{
	for (; rounds && !end->failed; rounds--) {
		post_receive(end);
		serve(end, DISCRIMINATOR);
		if (end->failed)
			return;
		see_off(end);
		leave(end);
	}
}

/* Serves a measurement; whether there was one, and what it was. */
static int serve_one(struct end *end, struct plan *plan, unsigned long pause)
{
	post_window(end);
	serve(end, DISCRIMINATOR);
	if (!take_plan(end, plan))
		return 0;
	tell_plan(end, plan);
	/* One that has ended does not wait for the answer. */
	if (plan->kind == NOTHING) {
		end->failed = NULL;
		return 1;
	}
	/* Remote memory needs nobody. */
	if (plan->kind == LATENCY && plan->operation != OF_READ)
		serve_latency(end, plan, pause);
	else if (plan->kind == BANDWIDTH && plan->operation == OF_SEND)
		serve_messages(end, plan);
	/* The client says that it has ended, and gets an answer behind everything else. */
	if (!take(end, RECEIVE))
		return 0;
	tell_plan(end, plan);
	see_off(end);
	return 1;
}

static void run_server(struct end *end, const struct options *options)
{
	struct plan plan;

	for (;;) {
		int served = serve_one(end, &plan, options->pause);

		/* Others may still come. */
		if (!served)
			fprintf(stderr, "FAILED: %s: %s\n", end->failed ? end->failed : "the plan",
				end->failed ? result_name(end->result) : "makes no sense");
		leave(end);
		if (!served)
			continue;
		if (plan.kind == NOTHING && options->once)
			return;
		if (plan.kind == CONNECT)
			serve_connections(end, plan.rounds);
		if (end->failed)
			leave(end);
	}
}

/* --- the client */

struct client {
	struct end end;
	const struct options *options;
	VIP_NET_ADDRESS *server;
};

/* Takes the server's answer. */
static void take_answer(struct end *end, struct plan *answer)
{
	int sensible = take_plan(end, answer);

	check_end(end);
	if (!sensible)
		fail("the server's answer makes no sense");
}

/* Connects and tells the server what is to come; where its memory is. */
static struct place begin(struct client *client, const struct plan *plan)
{
	struct plan answer;

	post_window(&client->end);
	ask(&client->end, client->server);
	tell_plan(&client->end, plan);
	take_answer(&client->end, &answer);
	return answer.place;
}

/* Says that it was all, and waits for the answer behind everything else. */
static void finish(struct end *end, const struct plan *plan)
{
	tell_plan(end, plan);
	take(end, RECEIVE);
	check_end(end);
}

/* Half a round trip, or a whole read. */
static double one_latency(struct end *end, const struct plan *plan, unsigned long pause)
{
	VIP_DESCRIPTOR *answer;
	double start, time;

	pause_for(pause);
	start = now_us();
	post_noticed(end, plan, 0);
	if (plan->operation == OF_READ) {
		take(end, SEND);
		return now_us() - start;
	}
	answer = take(end, RECEIVE);
	time = now_us() - start - pause_of(answer) / 1e3;
	take(end, SEND);
	post_receive(end);
	return time > 0 ? time / 2 : 0;
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

static void print_row(const struct plan *plan, double value, const char *of)
{
	printf("%-10s %-8s %9lu %9lu %13.3f %s\n", kind_names[plan->kind],
		operation_names[plan->operation], plan->size, plan->rounds, value, of);
}

/* Begins a JSON object with what was measured. */
static void print_begin(const struct plan *plan)
{
	printf("{\"kind\":\"%s\",\"operation\":\"%s\",\"bytes\":%lu,\"rounds\":%lu,",
		kind_names[plan->kind], operation_names[plan->operation], plan->size,
		plan->rounds);
}

static void print_latency(const struct plan *plan, const double *times, int json)
{
	double median = times[plan->rounds * 50 / 100], p99 = times[plan->rounds * 99 / 100];

	if (json) {
		print_begin(plan);
		printf("\"min\":%.3f,\"median\":%.3f,\"p99\":%.3f}\n", times[0], median, p99);
		return;
	}
	print_row(plan, times[0], "us, least");
	print_row(plan, median, "us, median");
	print_row(plan, p99, "us, 99 %");
}

static void measure_latency(struct end *end, const struct plan *plan,
	const struct options *options)
{
	double *times = calloc(plan->rounds, sizeof(*times));
	unsigned long n;

	if (!times)
		fail("no memory");
	for (n = 0; n < WARM_UP; n++)
		one_latency(end, plan, options->pause);
	for (n = 0; n < plan->rounds; n++) {
		times[n] = one_latency(end, plan, options->pause);
		check_end(end);
	}
	qsort(times, plan->rounds, sizeof(*times), compare);
	print_latency(plan, times, options->json);
	free(times);
	finish(end, plan);
}

/* Does so many operations, until the server has all of them. */
static void move(struct end *end, const struct plan *plan)
{
	unsigned long n, under_way = 0, credit = WINDOW - 2, told = 0;
	int is_send = plan->operation == OF_SEND;
	struct plan answer;

	for (n = 0; n < plan->rounds; n++) {
		if (under_way == WINDOW - 2) {
			take(end, SEND);
			under_way--;
		}
		if (is_send && !credit) {
			take_answer(end, &answer);
			credit += CREDIT;
			told += CREDIT;
		}
		post_send(end, plan->operation, &plan->place, plan->size);
		check_end(end);
		under_way++;
		credit -= is_send;
	}
	while (under_way--)
		take(end, SEND);
	for (; is_send && told < plan->rounds; told += CREDIT)
		take_answer(end, &answer);
	finish(end, plan);
}

static void measure_bandwidth(struct end *end, const struct plan *plan, int json)
{
	double start = now_us(), mb_s;

	move(end, plan);
	mb_s = (double)plan->size * plan->rounds / (now_us() - start);
	if (json) {
		print_begin(plan);
		printf("\"mb_s\":%.3f}\n", mb_s);
	} else {
		print_row(plan, mb_s, "MB/s");
	}
}

static void measure_connections(struct client *client, unsigned long rounds)
{
	struct plan plan = { CONNECT, OF_SEND, 1, 0, { 0, 0 } };
	struct end *end = &client->end;
	double start, per_s;
	unsigned long n;

	plan.rounds = (rounds + ROUNDS_FOR_CONNECTION - 1) / ROUNDS_FOR_CONNECTION;
	begin(client, &plan);
	finish(end, &plan);
	leave(end);
	start = now_us();
	for (n = 0; n < plan.rounds; n++) {
		ask(end, client->server);
		check_end(end);
		leave(end);
	}
	per_s = plan.rounds / (now_us() - start) * 1e6;
	printf(client->options->json ?
	       "{\"kind\":\"connect\",\"rounds\":%lu,\"per_s\":%.1f}\n" :
	       "connect                         %7lu %13.1f per s\n", plan.rounds, per_s);
}

static void measure(struct client *client, enum kind kind, enum operation operation,
	unsigned long size)
{
	struct plan plan = { kind, operation, size, client->options->rounds, { 0, 0 } };

	/* As many as the server tells of. */
	if (kind == BANDWIDTH)
		plan.rounds = (plan.rounds + CREDIT - 1) / CREDIT * CREDIT;
	plan.place = begin(client, &plan);
	if (kind == LATENCY)
		measure_latency(&client->end, &plan, client->options);
	else
		measure_bandwidth(&client->end, &plan, client->options->json);
	leave(&client->end);
}

static void run_client(struct client *client)
{
	struct plan last = { NOTHING, OF_SEND, 1, 0, { 0, 0 } };
	const struct options *options = client->options;
	int kind, operation;
	size_t size;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!options->json)
		printf("%-10s %-8s %9s %9s %13s %s\n", "measured", "with", "bytes", "rounds",
			"result", "of");
	for (kind = LATENCY; kind < CONNECT; kind++)
		for (operation = 0; operation < OPERATIONS; operation++)
			for (size = 0; size < options->size_count; size++)
				if ((options->kinds >> kind) & (options->operations >> operation) & 1)
					measure(client, kind, operation, options->sizes[size]);
	if (options->kinds >> CONNECT & 1)
		measure_connections(client, options->rounds);
	begin(client, &last);
	leave(&client->end);
}

/* --- the command line */

/* Calls a function for each part of a list of the command line; whether it takes all of them. */
static int each(char *list, int (*take_part)(const char *part, struct options *options),
	struct options *options)
{
	char *part, *rest = list;

	while ((part = rest)) {
		rest = strchr(part, ',');
		if (rest)
			*rest++ = '\0';
		if (!take_part(part, options))
			return 0;
	}
	return 1;
}

/* Where a name stands in a list that NULL ends; -1 if it does not. */
static int find(const char *const *names, const char *name)
{
	int n;

	for (n = 0; names[n]; n++)
		if (*name && !strcmp(names[n], name))
			return n;
	return -1;
}

static int add_kind(const char *name, struct options *options)
{
	int kind = find(kind_names, name);

	if (kind >= 0)
		options->kinds |= 1u << kind;
	return kind >= 0;
}

static int add_operation(const char *name, struct options *options)
{
	int operation = find(operation_names, name);

	if (operation >= 0)
		options->operations |= 1u << operation;
	return operation >= 0;
}

static int add_size(const char *text, struct options *options)
{
	return options->size_count < SIZES_MOST &&
		parse_number(text, 1, SIZE_MOST, &options->sizes[options->size_count++]);
}

static int set_level(const char *name, struct options *options)
{
	int level = find(level_names, name);

	options->shape.level = level ? VIP_SERVICE_RELIABLE_RECEPTION :
				       VIP_SERVICE_RELIABLE_DELIVERY;
	return level >= 0;
}

static int set_option(int option, struct options *options)
{
	switch (option) {
	case 'l':
		return set_level(optarg, options);
	case 'w':
		return options->shape.wait = 1;
	case 'c':
		return options->shape.cq = 1;
	case 'p':
		return parse_number(optarg, 1, ULONG_MAX, &options->shape.patience);
	case 'u':
		return parse_number(optarg, 0, PAUSE_MOST, &options->pause);
	case '1':
		return options->once = 1;
	case 'o':
		return each(optarg, add_kind, options);
	case 'q':
		return each(optarg, add_operation, options);
	case 's':
		options->size_count = 0;
		return each(optarg, add_size, options);
	case 'r':
		return parse_number(optarg, 1, ROUNDS_MOST, &options->rounds);
	case 'j':
		return options->json = 1;
	case 'h':
		fputs(usage, stdout);
		exit(EXIT_SUCCESS);
	default:
		return 0;
	}
}

static void parse(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {
		{ "level", required_argument, NULL, 'l' },
		{ "wait", no_argument, NULL, 'w' },
		{ "cq", no_argument, NULL, 'c' },
		{ "patience", required_argument, NULL, 'p' },
		{ "pause", required_argument, NULL, 'u' },
		{ "once", no_argument, NULL, '1' },
		{ "only", required_argument, NULL, 'o' },
		{ "operations", required_argument, NULL, 'q' },
		{ "sizes", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1)
		if (!set_option(option, options))
			fail_usage(usage);
	if (!options->kinds)
		options->kinds = ~0u;
	if (!options->operations)
		options->operations = ~0u;
}

int main(int argc, char **argv)
{
	struct options options = {
		{ VIP_SERVICE_RELIABLE_DELIVERY, 0, 0, PATIENCE_MS }, 0, 0, 0, 0,
		{ 8, 64, 1024, 65536 }, 4, 1000, 0
	};
	struct client client;
	const char *host = NULL;

	parse(argc, argv, &options);
	if (argc - optind == 2 && !strcmp(argv[optind], "client"))
		host = argv[optind + 1];
	else if (argc - optind != 1 || strcmp(argv[optind], "server"))
		fail_usage(usage);
	open_end(&client.end, &options.shape);
	if (host) {
		client.options = &options;
		client.server = find_server(&client.end, host, DISCRIMINATOR);
		run_client(&client);
	} else {
		run_server(&client.end, &options);
	}
	check("VipCloseNic", VipCloseNic(client.end.nic));
	return EXIT_SUCCESS;
}
