// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Sends every message back to the client that it came from.
 *
 * One thread waits for clients and connects each to a virtual interface of its own, with receives
 * posted before. All receive queues have one completion queue, which the other thread waits on; it
 * answers on the send queue of the interface that a message has come on, which has none.
 *
 *	vipl_echo_server [CLIENTS]
 *
 * It ends when so many clients have come and gone, or never.
 */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS_MAX 64		/* at a time */
#define RECEIVES 8		/* posted for each */
#define SIZE 4096		/* bytes of a message */

/* A client, by the handle of its virtual interface. */
struct client {
	VIP_VI_HANDLE vi;
	VIP_PROTECTION_HANDLE ptag;
	struct message *receives;	/* and one more, for the answer */
	struct client *next;
};

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES nic_attributes;
static VIP_CQ_HANDLE cq;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t room = PTHREAD_COND_INITIALIZER;
static struct client *clients;
static unsigned int count;

static void add(struct client *client)
{
	pthread_mutex_lock(&lock);
	while (count == CLIENTS_MAX)
		pthread_cond_wait(&room, &lock);
	client->next = clients;
	clients = client;
	count++;
	pthread_mutex_unlock(&lock);
}

static struct client *find(VIP_VI_HANDLE vi)
{
	struct client *client;

	pthread_mutex_lock(&lock);
	for (client = clients; client && client->vi != vi; client = client->next)
		;
	pthread_mutex_unlock(&lock);
	return client;
}

/* Takes a client out of the list. Both threads may find that it has ended: NULL for the second. */
static struct client *take_out(VIP_VI_HANDLE vi)
{
	struct client *client;
	struct client **at;

	pthread_mutex_lock(&lock);
	for (at = &clients; *at && (*at)->vi != vi; at = &(*at)->next)
		;
	client = *at;
	if (client) {
		*at = client->next;
		count--;
	}
	pthread_cond_signal(&room);
	pthread_mutex_unlock(&lock);
	return client;
}

/* --- clients that come and go */

static struct client *make_client(const VIP_VI_ATTRIBUTES *remote)
{
	struct client *client = calloc(1, sizeof(*client));
	VIP_VI_ATTRIBUTES attributes = *remote;
	unsigned int n;

	if (!client) {
		fprintf(stderr, "FAILED: no memory\n");
		exit(EXIT_FAILURE);
	}
	check("VipCreatePtag", VipCreatePtag(nic, &client->ptag));
	attributes.Ptag = client->ptag;
	attributes.EnableRdmaWrite = VIP_FALSE;
	attributes.EnableRdmaRead = VIP_FALSE;
	check("VipCreateVi", VipCreateVi(nic, &attributes, NULL, cq, &client->vi));
	client->receives = make_messages(nic, client->ptag, RECEIVES + 1, SIZE);
	for (n = 0; n < RECEIVES; n++) {
		struct message *message = &client->receives[n];

		prepare(message, SIZE);
		check("VipPostRecv",
			VipPostRecv(client->vi, message->descriptor, message->memory));
	}
	return client;
}

/* Empties the queues of an interface, so that it can go. */
static void end_client(struct client *client)
{
	VIP_DESCRIPTOR *descriptor;

	check("VipDisconnect", VipDisconnect(client->vi));
	do
		VipRecvDone(client->vi, &descriptor);
	while (descriptor);
	do
		VipSendDone(client->vi, &descriptor);
	while (descriptor);
	check("VipDestroyVi", VipDestroyVi(client->vi));
	free_messages(nic, client->receives);
	check("VipDestroyPtag", VipDestroyPtag(nic, client->ptag));
	free(client);
}

static void *serve_newcomers(void *unused)
{
	VIP_NET_ADDRESS *local = make_address(&nic_attributes, ECHO_DISCRIMINATOR);
	VIP_NET_ADDRESS *remote = make_address(&nic_attributes, "");
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE conn;

	(void)unused;
	for (;;) {
		struct client *client;
		VIP_VI_HANDLE vi;
		VIP_RETURN result;

		result = VipConnectWait(nic, local, VIP_INFINITE, remote, &attributes, &conn);
		check("VipConnectWait", result);
		client = make_client(&attributes);
		vi = client->vi;
		/* The first message may come before the call returns. */
		add(client);
		result = VipConnectAccept(conn, vi);
		if (result == VIP_SUCCESS)
			continue;
		/* The client has given up, or is gone: others may still come. */
		fprintf(stderr, "VipConnectAccept: %s\n", result_name(result));
		if (result != VIP_TIMEOUT && result != VIP_NOT_REACHABLE)
			VipConnectReject(conn);
		client = take_out(vi);
		if (client)
			end_client(client);
	}
	return NULL;
}

/* --- messages */

/* Sends a message back; whether the client is still there. */
static int echo(struct client *client, VIP_DESCRIPTOR *descriptor)
{
	struct message *answer = &client->receives[RECEIVES];
	size_t length = descriptor->CS.Length;
	VIP_DESCRIPTOR *sent;

	memcpy(answer->data, descriptor->DS[0].Local.Data.Address, length);
	prepare(answer, length);
	if (descriptor->CS.Status & VIP_STATUS_IMMEDIATE) {
		answer->descriptor->CS.Control |= VIP_CONTROL_IMMEDIATE;
		answer->descriptor->CS.ImmediateData = descriptor->CS.ImmediateData;
	}
	descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	check("VipPostRecv", VipPostRecv(client->vi, descriptor, answer->memory));
	check("VipPostSend", VipPostSend(client->vi, answer->descriptor, answer->memory));
	return VipSendWait(client->vi, RESPONSE_MS, &sent) == VIP_SUCCESS;
}

/* Serves messages until so many clients have gone. */
static void serve_messages(unsigned long most)
{
	unsigned long gone = 0;

	while (!most || gone < most) {
		VIP_DESCRIPTOR *descriptor = NULL;
		struct client *client;
		VIP_VI_HANDLE vi;
		VIP_BOOLEAN receive;
		VIP_RETURN result;

		check("VipCQWait", VipCQWait(cq, VIP_INFINITE, &vi, &receive));
		client = find(vi);
		if (!client)
			continue;
		result = VipRecvDone(vi, &descriptor);
		if (result == VIP_NOT_DONE || !descriptor)
			continue;
		if (result == VIP_SUCCESS && echo(client, descriptor))
			continue;
		/* The client has gone, or its connection is broken: only that one ends. */
		client = take_out(vi);
		if (!client)
			continue;
		end_client(client);
		gone++;
	}
}

int main(int argc, char **argv)
{
	unsigned long most = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	pthread_t newcomers;

	nic = open_nic(&nic_attributes);
	check("VipCreateCQ", VipCreateCQ(nic, CLIENTS_MAX * RECEIVES, &cq));
	if (pthread_create(&newcomers, NULL, serve_newcomers, NULL)) {
		fprintf(stderr, "FAILED: no thread\n");
		return EXIT_FAILURE;
	}
	printf("ready\n");
	fflush(stdout);
	serve_messages(most);
	printf("%lu clients have come and gone\n", most);
	fflush(stdout);
	/* The other thread waits for ever; everything ends with the process. */
	_Exit(EXIT_SUCCESS);
}
