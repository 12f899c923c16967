/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One end of a connection: a virtual interface, and registered memory with descriptors and data.
 *
 * The first function that fails leaves its name and what it has returned in the end. All that
 * follow do nothing then, until the end is left: programs ask once, after a whole exchange.
 */
#ifndef END_H
#define END_H

#include <stddef.h>
#include <vipl.h>

#define SIZE_MOST (1 << 20)		/* bytes of the largest message */
#define WINDOW 32			/* descriptors of each queue in use at the same time */
#define PART (SIZE_MOST / WINDOW)	/* bytes of a part, of which each receive has its own */
#define PATIENCE_MS 30000

enum queue { SEND, RECEIVE };

/* How an end is made. */
struct shape {
	VIP_RELIABILITY_LEVEL level;
	int wait;			/* sleep for completions, instead of looking all the time */
	int cq;				/* one completion queue for both queues */
	unsigned long patience;		/* milliseconds that the other side may take */
};

/* Memory of the other process. */
struct place {
	VIP_UINT64 address;
	VIP_MEM_HANDLE handle;
};

struct end {
	struct shape shape;
	VIP_NIC_HANDLE nic;
	VIP_NIC_ATTRIBUTES attributes;
	VIP_VI_HANDLE vi;
	VIP_CQ_HANDLE cq;
	VIP_MEM_HANDLE memory;
	VIP_DESCRIPTOR *descriptors[2];
	char *out, *in;			/* what is sent, and what is received */
	size_t posted[2];
	size_t entries[2];		/* of the completion queue, which nobody has asked for */
	const char *failed;		/* the function that has, or NULL */
	VIP_RETURN result;		/* what it has returned */
};

/* Makes an end that is not connected; ends the program if it cannot. */
void open_end(struct end *end, const struct shape *shape);

/* The address of a server by the name or number of its host; ends the program without one. */
VIP_NET_ADDRESS *find_server(struct end *end, const char *host, const char *discriminator);

/* Waits for a client and connects it, however long that takes. */
void serve(struct end *end, const char *discriminator);
/* Connects to a server, which may be busy with something else. */
void ask(struct end *end, VIP_NET_ADDRESS *server);
/* Ends the connection and takes back all descriptors; the end can be connected again. */
void leave(struct end *end);

/* Posts a receive of any message, or of a part. */
void post_receive(struct end *end);
void post_part(struct end *end);
/* Posts an operation, a control field of vipl.h, with so many bytes of what is to be sent. */
void post_send(struct end *end, VIP_UINT16 control, const struct place *there, size_t length);
/* The same, with immediate data if the control field says so. */
void post_send_with(struct end *end, VIP_UINT16 control, const struct place *there, size_t length,
	VIP_UINT32 immediate);

/* Takes the next descriptor of a queue, as soon as it is done; NULL if anything has failed. */
VIP_DESCRIPTOR *take(struct end *end, enum queue queue);
/* Sends so many bytes, and takes the descriptor. */
void tell(struct end *end, size_t length);
/* Waits until the other side has left, which leaves first. */
void see_off(struct end *end);

/* Ends the program if anything has failed. */
void check_end(const struct end *end);

#endif /* END_H */
