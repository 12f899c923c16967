// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * See common.h.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AGAIN_NS 50000		/* until a server that is busy is asked again */
#define BUSY_MS 2000		/* how long a server may serve somebody else */

static const char *const result_names[] = {
	"VIP_SUCCESS", "VIP_NOT_DONE", "VIP_INVALID_PARAMETER", "VIP_ERROR_RESOURCE",
	"VIP_TIMEOUT", "VIP_REJECT", "VIP_INVALID_RELIABILITY_LEVEL", "VIP_INVALID_MTU",
	"VIP_INVALID_QOS", "VIP_INVALID_PTAG", "VIP_INVALID_RDMAREAD", "VIP_DESCRIPTOR_ERROR",
	"VIP_INVALID_STATE", "VIP_ERROR_NAMESERVICE", "VIP_NO_MATCH", "VIP_NOT_REACHABLE",
};

const char *result_name(VIP_RETURN result)
{
	size_t index = result;

	return index < sizeof(result_names) / sizeof(*result_names) ? result_names[index] : "?";
}

void check(const char *what, VIP_RETURN result)
{
	if (result == VIP_SUCCESS)
		return;
	fprintf(stderr, "FAILED: %s: %s\n", what, result_name(result));
	exit(EXIT_FAILURE);
}

void fail(const char *what)
{
	fprintf(stderr, "FAILED: %s\n", what);
	exit(EXIT_FAILURE);
}

void fail_file(const char *name)
{
	fprintf(stderr, "FAILED: %s: %s\n", name, strerror(errno));
	exit(EXIT_FAILURE);
}

void fail_usage(const char *usage)
{
	fputs(usage, stderr);
	exit(2);
}

int parse_number(const char *text, unsigned long least, unsigned long most, unsigned long *number)
{
	char *end;

	errno = 0;
	*number = strtoul(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *number >= least && *number <= most;
}

double now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

void put_number(char *to, VIP_UINT64 number, size_t bytes)
{
	size_t n;

	for (n = 0; n < bytes; n++)
		to[n] = number >> 8 * n & 0xff;
}

VIP_UINT64 get_number(const char *from, size_t bytes)
{
	VIP_UINT64 number = 0;
	size_t n;

	for (n = 0; n < bytes; n++)
		number |= (VIP_UINT64)(unsigned char)from[n] << 8 * n;
	return number;
}

VIP_NIC_HANDLE open_nic(VIP_NIC_ATTRIBUTES *attributes)
{
	VIP_NIC_HANDLE nic;

	check("VipOpenNic", VipOpenNic(VINICBASENAME, &nic));
	check("VipQueryNic", VipQueryNic(nic, attributes));
	return nic;
}

static size_t in_descriptors(size_t size)
{
	size_t unit = VIP_DESCRIPTOR_ALIGNMENT;

	return (size + unit - 1) / unit * unit;
}

void *make_memory(VIP_NIC_HANDLE nic, VIP_MEM_ATTRIBUTES *attributes, size_t size,
	VIP_MEM_HANDLE *memory)
{
	void *start;

	if (posix_memalign(&start, VIP_DESCRIPTOR_ALIGNMENT, size))
		fail("no memory");
	memset(start, 0, size);
	check("VipRegisterMem", VipRegisterMem(nic, start, size, attributes, memory));
	return start;
}

struct message *make_messages(VIP_NIC_HANDLE nic, VIP_PROTECTION_HANDLE ptag, unsigned int count,
	size_t size)
{
	size_t each = sizeof(VIP_DESCRIPTOR) + in_descriptors(size);
	VIP_MEM_ATTRIBUTES attributes = { ptag, VIP_FALSE, VIP_FALSE };
	struct message *messages = calloc(count, sizeof(*messages));
	VIP_MEM_HANDLE memory;
	unsigned int n;
	char *at;

	if (!messages)
		fail("no memory");
	at = make_memory(nic, &attributes, count * each, &memory);
	for (n = 0; n < count; n++, at += each) {
		messages[n].descriptor = (VIP_DESCRIPTOR *)at;
		messages[n].data = at + sizeof(VIP_DESCRIPTOR);
		messages[n].size = size;
		messages[n].memory = memory;
	}
	return messages;
}

void free_messages(VIP_NIC_HANDLE nic, struct message *messages)
{
	void *start = messages[0].descriptor;

	check("VipDeregisterMem", VipDeregisterMem(nic, start, messages[0].memory));
	free(start);
	free(messages);
}

void prepare(struct message *message, size_t length)
{
	VIP_DESCRIPTOR *descriptor = message->descriptor;

	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	descriptor->CS.SegCount = 1;
	descriptor->CS.Length = length;
	descriptor->DS[0].Local.Data.Address = message->data;
	descriptor->DS[0].Local.Handle = message->memory;
	descriptor->DS[0].Local.Length = length;
}

void set_discriminator(VIP_NET_ADDRESS *address, const char *discriminator)
{
	address->DiscriminatorLen = strlen(discriminator);
	memcpy(address->HostAddress + address->HostAddressLen, discriminator,
		address->DiscriminatorLen);
}

VIP_NET_ADDRESS *make_address(const VIP_NIC_ATTRIBUTES *attributes, const char *discriminator)
{
	VIP_NET_ADDRESS *address = calloc(1, sizeof(*address) + attributes->NicAddressLen +
		attributes->MaxDiscriminatorLen);

	if (!address)
		fail("no memory");
	address->HostAddressLen = attributes->NicAddressLen;
	memcpy(address->HostAddress, attributes->LocalNicAddress, attributes->NicAddressLen);
	set_discriminator(address, discriminator);
	return address;
}

VIP_RETURN request(VIP_VI_HANDLE vi, VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote,
	unsigned long busy_ms, unsigned long response_ms)
{
	double until = now_us() + busy_ms * 1e3;
	struct timespec again = { 0, AGAIN_NS };
	VIP_VI_ATTRIBUTES attributes;
	VIP_RETURN result;

	for (;;) {
		result = VipConnectRequest(vi, local, remote, response_ms, &attributes);
		if (result != VIP_NO_MATCH || now_us() >= until)
			return result;
		nanosleep(&again, NULL);
	}
}

void connect_to(VIP_VI_HANDLE vi, VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote)
{
	check("VipConnectRequest", request(vi, local, remote, BUSY_MS, RESPONSE_MS));
}
