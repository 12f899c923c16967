/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * Management of the message frame fabric over generic netlink.
 *
 * The only place where commands and attributes have their numbers: the kernel
 * module and the programs in userlib generate theirs from this file.
 *
 * Numbers in answers are of the netlink type "uint": 4 bytes, or 8 if they do not
 * fit. Numbers in requests are u32. Attributes that a program does not know are
 * to be skipped. Peer ids are those of the fabric: 0 is the root processor, an
 * endpoint has bus << 8 | device << 3 | function.
 */
#ifndef _UAPI_LINUX_MP_NETLINK_H
#define _UAPI_LINUX_MP_NETLINK_H

#define MP_GENL_NAME "mp"
#define MP_GENL_VERSION 1

/* Multicast group of peers that arrive and leave. */
#define MP_GENL_GROUP_PEERS "peers"

/* The id of a host that has got none yet. */
#define MP_PEER_ID_NONE 0x80000000

enum {
	MP_CMD_UNSPEC,
	/* This host: MP_A_PEER_ID and an MP_A_COUNTER for each of its counters. */
	MP_CMD_HOST_GET,
	/* The peer MP_A_PEER_ID, or a dump of all. */
	MP_CMD_PEER_GET,
	/*
	 * Asks the peer MP_A_PEER_ID for its own statistics, over all its peers:
	 * MP_A_STATS, or an error that says in the same way which request it is for. It comes
	 * within MP_A_TIMEOUT_MS; others on the same socket may be answered before. Needs
	 * CAP_NET_ADMIN.
	 */
	MP_CMD_REMOTE_STATS_GET,
	/*
	 * The same question, for the time that it takes until the answer has
	 * arrived: MP_A_ROUND_TRIP_NS. Needs CAP_NET_ADMIN.
	 */
	MP_CMD_PING,
	/* Event: a peer has arrived, with all that MP_CMD_PEER_GET tells of it. */
	MP_CMD_PEER_ADD_NTF,
	/* Event: a peer has left, with its last statistics. */
	MP_CMD_PEER_DEL_NTF,
	/* A dump of all interfaces, the local ends of links: an MP_A_INTERFACE each. */
	MP_CMD_INTERFACE_GET,
};

/* Attributes of messages. */
enum {
	MP_A_UNSPEC,
	MP_A_PEER_ID,		/* uint */
	MP_A_PEER_INDEX,	/* uint: small number of the peer on this host */
	MP_A_TRANSPORT,		/* string: transport service that reaches it */
	MP_A_TRANSPORT_ID,	/* uint */
	MP_A_STATE,		/* uint: MP_STATE_* */
	MP_A_NEXT_HOP_ID,		/* uint: peer that forwards to it; absent if none does */
	MP_A_TX_QUEUES,		/* uint */
	MP_A_MAX_FRAME,		/* uint: most bytes of data in a frame */
	MP_A_STATS,		/* nest: MP_STATS_A_* */
	MP_A_COUNTER,		/* nest: MP_COUNTER_A_*; one for each counter */
	MP_A_LINK,		/* nest: MP_LINK_A_*; absent without a link of its own */
	MP_A_TIMEOUT_MS,	/* u32, in requests: 1 to MP_TIMEOUT_MS_MAX */
	MP_A_ROUND_TRIP_NS,	/* uint */
	MP_A_INTERFACE,		/* nest: MP_INTERFACE_A_* */
};

/* Who would like to wait for longer asks again. */
#define MP_TIMEOUT_MS_DEFAULT 1000
#define MP_TIMEOUT_MS_MAX 1000

/* States of a peer. */
enum {
	MP_STATE_CONNECTED,
	MP_STATE_LEAVING,
};

/* Attributes of MP_A_STATS, all uint. Bytes are data bytes without headers. */
enum {
	MP_STATS_A_UNSPEC,
	MP_STATS_A_TX_FRAMES,
	MP_STATS_A_TX_BYTES,
	MP_STATS_A_TX_ERRORS,
	MP_STATS_A_RX_FRAMES,
	MP_STATS_A_RX_BYTES,
	MP_STATS_A_RX_ERRORS,
};

/* Attributes of MP_A_COUNTER. */
enum {
	MP_COUNTER_A_UNSPEC,
	MP_COUNTER_A_NAME,	/* string */
	MP_COUNTER_A_VALUE,	/* uint */
};

/* Attributes of MP_A_LINK. */
enum {
	MP_LINK_A_UNSPEC,
	MP_LINK_A_BRIDGE,	/* uint: number of the bridge that it leads over */
	MP_LINK_A_EPOCH,	/* uint: this host's epoch number */
	MP_LINK_A_PEER_EPOCH,	/* uint: the peer's epoch number */
	MP_LINK_A_INBOUND,	/* uint: bytes of memory that the peer writes into */
	MP_LINK_A_OUTBOUND,	/* uint: bytes of the peer's memory that are mapped */
	MP_LINK_A_RING,		/* nest: MP_RING_A_*; one for each ring */
	MP_LINK_A_VERSION,	/* uint: wire version that both ends have agreed on */
};

/* Attributes of MP_A_INTERFACE. */
enum {
	MP_INTERFACE_A_UNSPEC,
	MP_INTERFACE_A_ID,		/* uint */
	MP_INTERFACE_A_NAME,		/* string, for people */
	MP_INTERFACE_A_KIND,		/* string: bridge, loopback, routed */
	MP_INTERFACE_A_BRIDGE,		/* uint: number of the bridge; absent without one */
	MP_INTERFACE_A_PORT,		/* uint: which of the bridge's peers is at the far end */
	MP_INTERFACE_A_PEER_ID,		/* uint: who is there; absent if nobody is */
	MP_INTERFACE_A_RESETS,		/* uint: epochs that ended by what the peer wrote */
	MP_INTERFACE_A_WAITS_FOR,	/* uint: MP_WAITS_*; absent if it waits for nothing */
	MP_INTERFACE_A_WAITS_MS,	/* uint: for how long it has waited, whatever for */
};

/* What a link waits for to carry frames, in the order in which it comes up. */
enum {
	MP_WAITS_NOTHING,
	MP_WAITS_REPAIR,	/* the bridge has failed */
	MP_WAITS_NTB_LINK,	/* the bridge reports no link */
	MP_WAITS_MEMORY,	/* no memory for the peer to write into */
	MP_WAITS_MAILBOX,	/* the peer's mailbox is empty */
	MP_WAITS_VERSION,	/* the peer speaks other versions */
	MP_WAITS_ANSWER,	/* the peer's mailbox does not answer */
	MP_WAITS_WINDOW,	/* the peer's memory cannot be mapped */
	MP_WAITS_HELLO,		/* nothing of the peer arrives in this host's memory */
	MP_WAITS_ECHO,		/* nothing of this host arrives in the peer's memory */
	MP_WAITS_PAUSE,		/* the peer wrote what cannot be */
	MP_WAITS_IDENTITY,	/* no host is the root processor */
	MP_WAITS_OTHER_ROOT,	/* the peer belongs to another root processor */
	MP_WAITS_ENTRY,		/* its id belongs to another host, or memory is short */
	MP_WAITS_DOORBELL,	/* frames pass, but no doorbell has ever come */
};

/* Attributes of MP_LINK_A_RING, all uint; sizes and fill levels in bytes. */
enum {
	MP_RING_A_UNSPEC,
	MP_RING_A_NUMBER,	/* 0 is the control ring, n the one of data queue n - 1 */
	MP_RING_A_TX_SIZE,
	MP_RING_A_TX_USED,	/* sent and not known to be consumed */
	MP_RING_A_RX_SIZE,
	MP_RING_A_RX_USED,	/* received and not given back */
};

#endif
