/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the examples have in common: registered memory with descriptors in it, addresses, and an
 * end when something fails.
 */
#ifndef COMMON_H
#define COMMON_H

#include <limits.h>
#include <stddef.h>
#include <vipl.h>

/* What the echo server is asked for: any bytes, 16 at most. */
#define ECHO_DISCRIMINATOR "echo"

#define RESPONSE_MS 10000	/* how long the other side may take */

/* A block of registered memory for messages of a size: a descriptor and the data behind it. */
struct message {
	VIP_DESCRIPTOR *descriptor;
	char *data;
	size_t size;
	VIP_MEM_HANDLE memory;
};

/* A value of the library by its name. */
const char *result_name(VIP_RETURN result);

/* Ends the program unless it is VIP_SUCCESS; says what has failed. */
void check(const char *what, VIP_RETURN result);

/* Ends the program, because of a file, or with the usage because of the command line. */
void fail(const char *what);
void fail_file(const char *name);
void fail_usage(const char *usage);

/* Reads a number of the command line from `least` to `most`; whether it is one. */
int parse_number(const char *text, unsigned long least, unsigned long most, unsigned long *number);

/* Microseconds of a clock that only goes on. */
double now_us(void);

/* Numbers in messages, little-endian, of up to eight bytes. */
void put_number(char *to, VIP_UINT64 number, size_t bytes);
VIP_UINT64 get_number(const char *from, size_t bytes);

/* Opens the first interface. */
VIP_NIC_HANDLE open_nic(VIP_NIC_ATTRIBUTES *attributes);

/* Makes memory that is registered, for descriptors and data; it is all zero. */
void *make_memory(VIP_NIC_HANDLE nic, VIP_MEM_ATTRIBUTES *attributes, size_t size,
	VIP_MEM_HANDLE *memory);

/* Makes messages, in memory that is registered as a whole. */
struct message *make_messages(VIP_NIC_HANDLE nic, VIP_PROTECTION_HANDLE ptag, unsigned int count,
	size_t size);
void free_messages(VIP_NIC_HANDLE nic, struct message *messages);

/* Makes the descriptor of a message say: send, or receive, so many bytes. */
void prepare(struct message *message, size_t length);

/* An address with room for a discriminator, on the interface's own host at first. */
VIP_NET_ADDRESS *make_address(const VIP_NIC_ATTRIBUTES *attributes, const char *discriminator);
/* Puts a discriminator behind the host. */
void set_discriminator(VIP_NET_ADDRESS *address, const char *discriminator);

/* Asks a server for a connection, again for so long while it serves somebody else. */
VIP_RETURN request(VIP_VI_HANDLE vi, VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote,
	unsigned long busy_ms, unsigned long response_ms);

/* Connects to a server, or ends the program. */
void connect_to(VIP_VI_HANDLE vi, VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote);

#endif /* COMMON_H */
