// SPDX-License-Identifier: GPL-2.0-only
/*
 * Asks another host over generic netlink, and then its own kernel by the same socket: prints
 * which is answered first, a line of JSON for each.
 *
 *	netlink_order PEER COUNT
 *
 * COUNT questions are sent to the peer. Lines have the number of the request, from 1 on in
 * their order, its error or 0, and the milliseconds since the first one was sent.
 */

#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../uapi/linux/mp_netlink.h"

#define ROOM 8192

static int fabric;

struct request {
	struct nlmsghdr header;
	struct genlmsghdr command;
	uint8_t attributes[256];
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void add(struct request *request, uint16_t kind, const void *value, size_t length)
{
	struct nlattr attribute = { NLA_HDRLEN + length, kind };
	uint8_t *at = (uint8_t *)request + request->header.nlmsg_len;

	memcpy(at, &attribute, sizeof(attribute));
	memcpy(at + NLA_HDRLEN, value, length);
	request->header.nlmsg_len += NLA_ALIGN(attribute.nla_len);
}

static struct request request(uint16_t family, uint8_t command, uint32_t number)
{
	struct request fresh = { 0 };

	fresh.header.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN);
	fresh.header.nlmsg_type = family;
	fresh.header.nlmsg_flags = NLM_F_REQUEST;
	fresh.header.nlmsg_seq = number;
	fresh.command.cmd = command;
	fresh.command.version = 1;
	return fresh;
}

static void put(const struct request *request)
{
	if (send(fabric, request, request->header.nlmsg_len, 0) < 0)
		fail("send");
}

/* The next message. */
static const struct nlmsghdr *take(void)
{
	static _Alignas(struct nlmsghdr) uint8_t room[ROOM];

	if (recv(fabric, room, sizeof(room), 0) < (ssize_t)sizeof(struct nlmsghdr))
		fail("recv");
	return (const struct nlmsghdr *)room;
}

/* The number of the fabric's family. */
static uint16_t family(void)
{
	struct request question = request(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0);
	const struct nlmsghdr *answer;
	const uint8_t *at, *end;

	add(&question, CTRL_ATTR_FAMILY_NAME, MP_GENL_NAME, sizeof(MP_GENL_NAME));
	put(&question);
	answer = take();
	at = (const uint8_t *)answer + NLMSG_LENGTH(GENL_HDRLEN);
	end = (const uint8_t *)answer + answer->nlmsg_len;
	while (answer->nlmsg_type == GENL_ID_CTRL && at < end) {
		const struct nlattr *attribute = (const struct nlattr *)at;
		uint16_t id;

		if (attribute->nla_type == CTRL_ATTR_FAMILY_ID) {
			memcpy(&id, at + NLA_HDRLEN, sizeof(id));
			return id;
		}
		at += NLA_ALIGN(attribute->nla_len);
	}
	errno = ENOENT;
	fail(MP_GENL_NAME);
	return 0;
}

static long milliseconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void show(const struct nlmsghdr *answer, long begun)
{
	const struct nlmsgerr *told = NLMSG_DATA(answer);
	int error = answer->nlmsg_type == NLMSG_ERROR ? -told->error : 0;

	printf("{\"request\": %u, \"errno\": %d, \"ms\": %ld}\n", answer->nlmsg_seq, error,
	       milliseconds() - begun);
}

int main(int count, char **words)
{
	uint32_t peer, timeout = MP_TIMEOUT_MS_MAX, number = 0, asked;
	struct request own;
	uint16_t id;
	long begun;

	if (count != 3)
		return 2;
	peer = strtoul(words[1], NULL, 0);
	asked = strtoul(words[2], NULL, 0);
	fabric = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	if (fabric < 0)
		fail("socket");
	id = family();
	begun = milliseconds();
	while (number < asked) {
		struct request question = request(id, MP_CMD_PING, ++number);

		add(&question, MP_A_PEER_ID, &peer, sizeof(peer));
		add(&question, MP_A_TIMEOUT_MS, &timeout, sizeof(timeout));
		put(&question);
	}
	own = request(id, MP_CMD_HOST_GET, ++number);
	put(&own);
	while (number--)
		show(take(), begun);
	return 0;
}
