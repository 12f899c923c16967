// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Sends messages to the echo server, and compares what comes back.
 *
 *	vipl_echo_client SERVER MESSAGES [unreliable | delivery | reception]
 *
 * SERVER is a name of vipl.conf(5), or a number of a host.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 4096

static VIP_RELIABILITY_LEVEL level_of(const char *name)
{
	if (!strcmp(name, "unreliable"))
		return VIP_SERVICE_UNRELIABLE;
	if (!strcmp(name, "reception"))
		return VIP_SERVICE_RELIABLE_RECEPTION;
	return VIP_SERVICE_RELIABLE_DELIVERY;
}

/* Sends one message and waits for its answer; whether it is the same. */
static int exchange(VIP_VI_HANDLE vi, struct message *request, struct message *reply,
	unsigned long number)
{
	size_t length = number * 37 % SIZE + 1, n;
	VIP_DESCRIPTOR *done;

	for (n = 0; n < length; n++)
		request->data[n] = number + n * 7;
	memset(reply->data, 0, length);
	prepare(reply, SIZE);
	check("VipPostRecv", VipPostRecv(vi, reply->descriptor, reply->memory));
	prepare(request, length);
	request->descriptor->CS.Control |= VIP_CONTROL_IMMEDIATE;
	request->descriptor->CS.ImmediateData = number;
	check("VipPostSend", VipPostSend(vi, request->descriptor, request->memory));
	check("VipSendWait", VipSendWait(vi, RESPONSE_MS, &done));
	check("VipRecvWait", VipRecvWait(vi, RESPONSE_MS, &done));
	return done == reply->descriptor && done->CS.Length == length &&
		(done->CS.Status & VIP_STATUS_IMMEDIATE) && done->CS.ImmediateData == number &&
		!memcmp(request->data, reply->data, length);
}

int main(int argc, char **argv)
{
	VIP_VI_ATTRIBUTES attributes = { VIP_SERVICE_RELIABLE_DELIVERY, SIZE, NULL, NULL,
		VIP_FALSE, VIP_FALSE };
	VIP_NIC_ATTRIBUTES nic_attributes;
	VIP_NET_ADDRESS *local, *remote;
	struct message *messages;
	unsigned long number, most, wrong = 0;
	VIP_NIC_HANDLE nic;
	VIP_VI_HANDLE vi;

	if (argc < 3) {
		fprintf(stderr, "usage: %s SERVER MESSAGES [unreliable|delivery|reception]\n",
			argv[0]);
		return EXIT_FAILURE;
	}
	most = strtoul(argv[2], NULL, 10);
	if (argc > 3)
		attributes.ReliabilityLevel = level_of(argv[3]);

	nic = open_nic(&nic_attributes);
	local = make_address(&nic_attributes, "client");
	remote = make_address(&nic_attributes, "");
	check("VipNSInit", VipNSInit(nic, NULL));
	check("VipNSGetHostByName", VipNSGetHostByName(nic, argv[1], remote, 0));
	set_discriminator(remote, ECHO_DISCRIMINATOR);

	check("VipCreatePtag", VipCreatePtag(nic, &attributes.Ptag));
	check("VipCreateVi", VipCreateVi(nic, &attributes, NULL, NULL, &vi));
	messages = make_messages(nic, attributes.Ptag, 2, SIZE);
	connect_to(vi, local, remote);
	for (number = 0; number < most; number++)
		wrong += !exchange(vi, &messages[0], &messages[1], number);

	check("VipDisconnect", VipDisconnect(vi));
	check("VipDestroyVi", VipDestroyVi(vi));
	free_messages(nic, messages);
	check("VipDestroyPtag", VipDestroyPtag(nic, attributes.Ptag));
	check("VipNSShutdown", VipNSShutdown(nic));
	check("VipCloseNic", VipCloseNic(nic));
	free(local);
	free(remote);
	printf("%lu messages, %lu wrong\n", most, wrong);
	return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
