// SPDX-License-Identifier: GPL-2.0-only
/*
 * As many virtual interfaces as the NIC tells, all connected at once.
 *
 *	vipl_many serve
 *	vipl_many ask HOST
 *
 * A client connects all its interfaces to those of a server, then sends the number of each on it,
 * and gets the number back with one added. Both say how many there were.
 */
#define _POSIX_C_SOURCE 200809L

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vipl.h>

#define SOON_MS 120000		/* how long the other side may take */
#define ATTEMPTS 60000

/* An interface, with a descriptor and a number for each queue. */
struct end {
	_Alignas(VIP_DESCRIPTOR_ALIGNMENT) VIP_DESCRIPTOR descriptors[2];
	uint64_t numbers[2];
	VIP_VI_HANDLE vi;
};

enum { SEND, RECEIVE };

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES nic_attributes;
static VIP_VI_ATTRIBUTES attributes = {
	.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
	.MaxTransferSize = 4096,
};
static VIP_MEM_HANDLE memory;
static struct end *ends;
static unsigned long count;

static void check(const char *what, VIP_RETURN result)
{
	if (result == VIP_SUCCESS)
		return;
	fprintf(stderr, "FAILED: %s: %d\n", what, (int)result);
	exit(EXIT_FAILURE);
}

static void expect(const char *what, int holds)
{
	if (holds)
		return;
	fprintf(stderr, "FAILED: %s\n", what);
	exit(EXIT_FAILURE);
}

static VIP_DESCRIPTOR *prepare(struct end *end, int queue)
{
	VIP_DESCRIPTOR *descriptor = &end->descriptors[queue];

	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	descriptor->CS.SegCount = 1;
	descriptor->CS.Length = sizeof(uint64_t);
	descriptor->DS[0].Local.Data.Address = &end->numbers[queue];
	descriptor->DS[0].Local.Handle = memory;
	descriptor->DS[0].Local.Length = sizeof(uint64_t);
	return descriptor;
}

static VIP_NET_ADDRESS *address(const char *discriminator)
{
	VIP_NET_ADDRESS *address = calloc(1, sizeof(*address) + nic_attributes.NicAddressLen +
		nic_attributes.MaxDiscriminatorLen);

	expect("memory", address != NULL);
	address->HostAddressLen = nic_attributes.NicAddressLen;
	memcpy(address->HostAddress, nic_attributes.LocalNicAddress, address->HostAddressLen);
	address->DiscriminatorLen = strlen(discriminator);
	memcpy(address->HostAddress + address->HostAddressLen, discriminator,
		address->DiscriminatorLen);
	return address;
}

/* Makes all interfaces, each with a receive; those of a server tell of messages together. */
static void make(VIP_CQ_HANDLE cq)
{
	VIP_MEM_ATTRIBUTES of_memory = { 0 };
	unsigned long n;
	void *start;

	expect("memory", !posix_memalign(&start, VIP_DESCRIPTOR_ALIGNMENT, count * sizeof(*ends)));
	memset(start, 0, count * sizeof(*ends));
	ends = start;
	check("VipCreatePtag", VipCreatePtag(nic, &attributes.Ptag));
	of_memory.Ptag = attributes.Ptag;
	check("VipRegisterMem",
		VipRegisterMem(nic, start, count * sizeof(*ends), &of_memory, &memory));
	for (n = 0; n < count; n++) {
		struct end *end = &ends[n];

		check("VipCreateVi", VipCreateVi(nic, &attributes, NULL, cq, &end->vi));
		check("VipPostRecv", VipPostRecv(end->vi, prepare(end, RECEIVE), memory));
	}
}

static void post(struct end *end, uint64_t number)
{
	end->numbers[SEND] = number;
	check("VipPostSend", VipPostSend(end->vi, prepare(end, SEND), memory));
}

/* Waits until what was sent has gone; nothing may be wrong with it. */
static void settle(struct end *end)
{
	VIP_DESCRIPTOR *done;

	check("VipSendWait", VipSendWait(end->vi, SOON_MS, &done));
	expect("a send", done == &end->descriptors[SEND] &&
		!(done->CS.Status & VIP_STATUS_ERROR_MASK));
}

static void serve(void)
{
	VIP_NET_ADDRESS *local;
	VIP_NET_ADDRESS *remote;
	VIP_CQ_HANDLE cq;
	unsigned long n;

	check("VipCreateCQ", VipCreateCQ(nic, count, &cq));
	make(cq);
	local = address("many");
	remote = address("");
	printf("ready\n");
	fflush(stdout);
	for (n = 0; n < count; n++) {
		VIP_VI_ATTRIBUTES theirs;
		VIP_CONN_HANDLE conn;

		check("VipConnectWait",
			VipConnectWait(nic, local, SOON_MS, remote, &theirs, &conn));
		check("VipConnectAccept", VipConnectAccept(conn, ends[n].vi));
	}
	for (n = 0; n < count; n++) {
		VIP_DESCRIPTOR *done;
		VIP_BOOLEAN receive;
		VIP_VI_HANDLE vi;
		struct end *end;

		check("VipCQWait", VipCQWait(cq, SOON_MS, &vi, &receive));
		check("VipRecvDone", VipRecvDone(vi, &done));
		end = (struct end *)((char *)done - offsetof(struct end, descriptors[RECEIVE]));
		expect("a receive", end->vi == vi && done->CS.Length == sizeof(uint64_t) &&
			!(done->CS.Status & VIP_STATUS_ERROR_MASK));
		post(end, end->numbers[RECEIVE] + 1);
	}
	for (n = 0; n < count; n++)
		settle(&ends[n]);
	/* The client leaves once it has them all. */
	for (n = 0; n < count; n++) {
		struct timespec soon = { 0, 1000000 };
		VIP_VI_STATE state = VIP_STATE_CONNECTED;
		VIP_VI_ATTRIBUTES own;
		VIP_BOOLEAN send, receive;

		while (state == VIP_STATE_CONNECTED) {
			check("VipQueryVi", VipQueryVi(ends[n].vi, &state, &own, &send, &receive));
			nanosleep(&soon, NULL);
		}
	}
}

static void ask(const char *host)
{
	struct timespec soon = { 0, 2000000 };
	VIP_NET_ADDRESS *local;
	VIP_NET_ADDRESS *remote;
	unsigned long n;

	make(NULL);
	local = address("");
	remote = address("");
	check("VipNSInit", VipNSInit(nic, NULL));
	check("VipNSGetHostByName", VipNSGetHostByName(nic, (char *)host, remote, 0));
	remote->DiscriminatorLen = strlen("many");
	memcpy(remote->HostAddress + remote->HostAddressLen, "many", remote->DiscriminatorLen);
	for (n = 0; n < count; n++) {
		VIP_RETURN result = VIP_NO_MATCH;
		VIP_VI_ATTRIBUTES theirs;
		unsigned int attempt;

		/* The server does not wait while it accepts. */
		for (attempt = 0; attempt < ATTEMPTS && result == VIP_NO_MATCH; attempt++) {
			if (attempt)
				nanosleep(&soon, NULL);
			result = VipConnectRequest(ends[n].vi, local, remote, SOON_MS, &theirs);
		}
		check("VipConnectRequest", result);
	}
	for (n = 0; n < count; n++)
		post(&ends[n], n);
	for (n = 0; n < count; n++) {
		VIP_DESCRIPTOR *done;

		check("VipRecvWait", VipRecvWait(ends[n].vi, SOON_MS, &done));
		expect("an answer", !(done->CS.Status & VIP_STATUS_ERROR_MASK) &&
			ends[n].numbers[RECEIVE] == n + 1);
		settle(&ends[n]);
	}
	check("VipNSShutdown", VipNSShutdown(nic));
}

int main(int argc, char **argv)
{
	expect("usage: vipl_many serve | ask HOST",
		argc > 1 && (argc == 3 || !strcmp(argv[1], "serve")));
	check("VipOpenNic", VipOpenNic(VINICBASENAME, &nic));
	check("VipQueryNic", VipQueryNic(nic, &nic_attributes));
	count = nic_attributes.MaxVI;
	if (argc == 3)
		ask(argv[2]);
	else
		serve();
	check("VipCloseNic", VipCloseNic(nic));
	printf("%lu virtual interfaces\n", count);
	return EXIT_SUCCESS;
}
