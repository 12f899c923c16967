// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program of version 1: management over generic netlink.
 *
 *	netlink			asks for all that can be asked
 *	netlink events		prints "listens", and ends when a peer has left and one has arrived
 */
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <linux/mp_netlink.h>

#include "common.h"

#define ROOM 16384
#define PEERS 64

/* Attributes behind each other. */
struct span {
	const uint8_t *at, *end;
};

static int link_to_kernel;
static uint16_t family;
static uint32_t group;
static _Alignas(struct nlmsghdr) uint8_t answer[ROOM];
static size_t answer_length;

/* The next attribute of a span, which gets shorter; its kind, or -1 at the end. */
static int next_of(struct span *span, struct span *value)
{
	struct nlattr head;

	if (span->end - span->at < NLA_HDRLEN)
		return -1;
	memcpy(&head, span->at, sizeof(head));
	HOLDS(head.nla_len >= NLA_HDRLEN && head.nla_len <= span->end - span->at);
	*value = (struct span) { span->at + NLA_HDRLEN, span->at + head.nla_len };
	span->at += NLA_ALIGN(head.nla_len);
	return head.nla_type & NLA_TYPE_MASK;
}

/* The first attribute of a kind; whether there is one. */
static int find(struct span span, int kind, struct span *value)
{
	int found;

	while ((found = next_of(&span, value)) >= 0)
		if (found == kind)
			return 1;
	return 0;
}

static struct span needed(struct span span, int kind)
{
	struct span value;

	HOLDS(find(span, kind, &value));
	return value;
}

/* A number of 4 or 8 bytes. */
static uint64_t number(struct span span, int kind)
{
	struct span value = needed(span, kind);
	uint64_t wide;
	uint32_t narrow;

	if (value.end - value.at == sizeof(wide)) {
		memcpy(&wide, value.at, sizeof(wide));
		return wide;
	}
	HOLDS(value.end - value.at == sizeof(narrow));
	memcpy(&narrow, value.at, sizeof(narrow));
	return narrow;
}

static void is_text(struct span span, int kind)
{
	struct span value = needed(span, kind);

	HOLDS(value.end - value.at > 1 && !value.end[-1]);
}

static void append(struct nlmsghdr *to, uint16_t kind, const void *value, uint16_t length)
{
	struct nlattr head = { .nla_len = NLA_HDRLEN + length, .nla_type = kind };
	uint8_t *end = (uint8_t *)to + NLMSG_ALIGN(to->nlmsg_len);

	memcpy(end, &head, sizeof(head));
	memcpy(end + NLA_HDRLEN, value, length);
	to->nlmsg_len = NLMSG_ALIGN(to->nlmsg_len) + NLA_ALIGN(head.nla_len);
}

/* Ask; with a peer and a time limit, unless they are negative. */
static void ask(uint16_t of, uint8_t command, uint16_t flags, int64_t peer, int64_t timeout)
{
	static _Alignas(struct nlmsghdr) uint8_t room[256];
	struct nlmsghdr *head = memset(room, 0, sizeof(room));
	struct genlmsghdr *what = NLMSG_DATA(head);
	uint32_t value;

	*head = (struct nlmsghdr) {
		.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN), .nlmsg_type = of,
		.nlmsg_flags = NLM_F_REQUEST | flags,
	};
	*what = (struct genlmsghdr) { .cmd = command, .version = MP_GENL_VERSION };
	if (of == GENL_ID_CTRL)
		append(head, CTRL_ATTR_FAMILY_NAME, MP_GENL_NAME, sizeof(MP_GENL_NAME));
	if (peer >= 0) {
		value = peer;
		append(head, MP_A_PEER_ID, &value, sizeof(value));
	}
	if (timeout >= 0) {
		value = timeout;
		append(head, MP_A_TIMEOUT_MS, &value, sizeof(value));
	}
	HOLDS(send(link_to_kernel, head, head->nlmsg_len, 0) == (ssize_t)head->nlmsg_len);
}

static void receive(void)
{
	ssize_t length = recv(link_to_kernel, answer, sizeof(answer), 0);

	HOLDS(length >= (ssize_t)sizeof(struct nlmsghdr));
	answer_length = length;
}

static struct span attributes_of(const struct nlmsghdr *message)
{
	const uint8_t *start = (const uint8_t *)message;

	return (struct span) { start + NLMSG_LENGTH(GENL_HDRLEN), start + message->nlmsg_len };
}

/* The attributes of the next message, which is of that command; or the error in its place. */
static struct span told(uint8_t command, int error)
{
	const struct nlmsghdr *head = (const struct nlmsghdr *)answer;
	const struct genlmsghdr *what = NLMSG_DATA(head);
	const struct nlmsgerr *wrong = NLMSG_DATA(head);

	receive();
	if (error) {
		HOLDS(head->nlmsg_type == NLMSG_ERROR && wrong->error == -error);
		return (struct span) { 0 };
	}
	HOLDS(head->nlmsg_type != NLMSG_ERROR && what->cmd == command);
	return attributes_of(head);
}

static void find_family(void)
{
	struct span all, groups, one;
	uint16_t id;

	ask(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0, -1, -1);
	all = told(CTRL_CMD_NEWFAMILY, 0);
	memcpy(&id, needed(all, CTRL_ATTR_FAMILY_ID).at, sizeof(id));
	family = id;
	groups = needed(all, CTRL_ATTR_MCAST_GROUPS);
	while (next_of(&groups, &one) >= 0) {
		struct span name = needed(one, CTRL_ATTR_MCAST_GRP_NAME);

		if (!strcmp((const char *)name.at, MP_GENL_GROUP_PEERS))
			group = number(one, CTRL_ATTR_MCAST_GRP_ID);
	}
	HOLDS(group);
}

static void tells_statistics(struct span peer)
{
	struct span stats = needed(peer, MP_A_STATS);

	HOLDS(number(stats, MP_STATS_A_TX_FRAMES) <= number(stats, MP_STATS_A_TX_BYTES) + 1000000);
	number(stats, MP_STATS_A_TX_ERRORS);
	number(stats, MP_STATS_A_RX_FRAMES);
	number(stats, MP_STATS_A_RX_BYTES);
	number(stats, MP_STATS_A_RX_ERRORS);
}

static void tells_link(struct span link)
{
	struct span all = link, one;
	unsigned int rings = 0;
	int kind;

	number(link, MP_LINK_A_BRIDGE);
	HOLDS(number(link, MP_LINK_A_EPOCH) && number(link, MP_LINK_A_PEER_EPOCH));
	HOLDS(number(link, MP_LINK_A_INBOUND) && number(link, MP_LINK_A_OUTBOUND));
	HOLDS(number(link, MP_LINK_A_VERSION));
	while ((kind = next_of(&all, &one)) >= 0) {
		if (kind != MP_LINK_A_RING)
			continue;
		rings++;
		number(one, MP_RING_A_NUMBER);
		HOLDS(number(one, MP_RING_A_TX_USED) <= number(one, MP_RING_A_TX_SIZE));
		HOLDS(number(one, MP_RING_A_RX_USED) <= number(one, MP_RING_A_RX_SIZE));
	}
	HOLDS(rings >= 2);
}

/* How a peer is reached: 0 for this host itself, 1 by a link, 2 by another peer. */
static int tells_peer(struct span peer)
{
	struct span link, hop;

	number(peer, MP_A_PEER_INDEX);
	number(peer, MP_A_TRANSPORT_ID);
	is_text(peer, MP_A_TRANSPORT);
	HOLDS(number(peer, MP_A_STATE) == MP_STATE_CONNECTED);
	HOLDS(number(peer, MP_A_TX_QUEUES) && number(peer, MP_A_MAX_FRAME));
	tells_statistics(peer);
	if (find(peer, MP_A_LINK, &link)) {
		tells_link(link);
		return 1;
	}
	return find(peer, MP_A_NEXT_HOP_ID, &hop) ? 2 : 0;
}

static uint32_t tells_of_itself(void)
{
	struct span host, one;
	unsigned int counters = 0;
	uint32_t id;
	int kind;

	ask(family, MP_CMD_HOST_GET, 0, -1, -1);
	host = told(MP_CMD_HOST_GET, 0);
	id = number(host, MP_A_PEER_ID);
	HOLDS(id != MP_PEER_ID_NONE);
	while ((kind = next_of(&host, &one)) >= 0) {
		if (kind != MP_A_COUNTER)
			continue;
		counters++;
		is_text(one, MP_COUNTER_A_NAME);
		number(one, MP_COUNTER_A_VALUE);
	}
	HOLDS(counters);
	return id;
}

/* All peers; how many are reached by a link, and by others. */
static unsigned int lists_peers(uint32_t *ids, unsigned int *ways)
{
	unsigned int count = 0;

	ask(family, MP_CMD_PEER_GET, NLM_F_DUMP, -1, -1);
	for (;;) {
		const struct nlmsghdr *head = (const struct nlmsghdr *)answer;
		int rest;

		receive();
		rest = answer_length;
		for (; NLMSG_OK(head, rest); head = NLMSG_NEXT(head, rest)) {
			struct span peer = attributes_of(head);
			int way;

			HOLDS(head->nlmsg_type != NLMSG_ERROR);
			if (head->nlmsg_type == NLMSG_DONE)
				return count;
			way = tells_peer(peer);
			ways[way]++;
			if (way)
				ids[count++] = number(peer, MP_A_PEER_ID);
			HOLDS(count < PEERS);
		}
	}
}

static void asks_peer(uint32_t id)
{
	struct span peer;

	ask(family, MP_CMD_PEER_GET, 0, id, -1);
	peer = told(MP_CMD_PEER_GET, 0);
	HOLDS(number(peer, MP_A_PEER_ID) == id && tells_peer(peer));
	ask(family, MP_CMD_PING, 0, id, MP_TIMEOUT_MS_MAX);
	peer = told(MP_CMD_PING, 0);
	HOLDS(number(peer, MP_A_PEER_ID) == id && number(peer, MP_A_ROUND_TRIP_NS));
	ask(family, MP_CMD_REMOTE_STATS_GET, 0, id, -1);
	peer = told(MP_CMD_REMOTE_STATS_GET, 0);
	HOLDS(number(peer, MP_A_PEER_ID) == id);
	tells_statistics(peer);
	ask(family, MP_CMD_PING, 0, id, MP_TIMEOUT_MS_MAX + 1);
	told(0, EINVAL);
	ask(family, MP_CMD_PING, 0, id, 0);
	told(0, EINVAL);
}

static void refuses(uint32_t own)
{
	ask(family, MP_CMD_PEER_GET, 0, 0x7FFFFFF0, -1);
	told(0, ENOTCONN);
	ask(family, MP_CMD_PEER_GET, 0, -1, -1);
	told(0, EINVAL);
	ask(family, MP_CMD_PING, 0, own, MP_TIMEOUT_MS_DEFAULT);
	told(0, EINVAL);
}

/* A peer leaves, and one arrives; both with all that is told of peers. */
static void hears_of_peers(void)
{
	int gone = 0, come = 0;

	HOLDS(!setsockopt(link_to_kernel, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)));
	puts("listens");
	fflush(stdout);
	while (!gone || !come) {
		const struct nlmsghdr *head = (const struct nlmsghdr *)answer;
		const struct genlmsghdr *what = NLMSG_DATA(head);
		struct span peer;

		receive();
		peer = attributes_of(head);
		number(peer, MP_A_PEER_ID);
		tells_statistics(peer);
		if (what->cmd == MP_CMD_PEER_DEL_NTF)
			gone++;
		else if (what->cmd == MP_CMD_PEER_ADD_NTF && gone)
			come += number(peer, MP_A_STATE) != MP_STATE_LEAVING;
	}
}

int main(int count, char **words)
{
	struct timeval patience = { .tv_sec = 40 };
	unsigned int peers, n, ways[3] = { 0 };
	uint32_t ids[PEERS], own;

	link_to_kernel = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	HOLDS(link_to_kernel >= 0);
	HOLDS(!setsockopt(link_to_kernel, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));
	find_family();
	if (count > 1 && !strcmp(words[1], "events")) {
		hears_of_peers();
		return 0;
	}
	own = tells_of_itself();
	peers = lists_peers(ids, ways);
	/* It runs on a host with a peer of its own, and one behind that. */
	HOLDS(ways[1] && ways[2]);
	for (n = 0; n < peers; n++)
		asks_peer(ids[n]);
	refuses(own);
	return 0;
}
