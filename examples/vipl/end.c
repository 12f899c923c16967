// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * See end.h.
 */
#define _POSIX_C_SOURCE 200809L

#include "end.h"

#include "common.h"

#include <stdlib.h>
#include <string.h>

#define LOOKS 1000		/* before a look at the time */

/* --- what goes wrong */

static int ok(struct end *end, const char *function, VIP_RETURN result)
{
	if (result != VIP_SUCCESS && !end->failed) {
		end->failed = function;
		end->result = result;
	}
	return !end->failed;
}

void check_end(const struct end *end)
{
	if (end->failed)
		check(end->failed, end->result);
}

/* --- making one */

static void open_memory(struct end *end, VIP_PROTECTION_HANDLE ptag)
{
	size_t size = 2 * WINDOW * sizeof(VIP_DESCRIPTOR) + 2 * SIZE_MOST;
	VIP_MEM_ATTRIBUTES attributes = { ptag, VIP_TRUE, VIP_TRUE };

	end->descriptors[SEND] = make_memory(end->nic, &attributes, size, &end->memory);
	end->descriptors[RECEIVE] = end->descriptors[SEND] + WINDOW;
	end->out = (char *)(end->descriptors[RECEIVE] + WINDOW);
	end->in = end->out + SIZE_MOST;
}

void open_end(struct end *end, const struct shape *shape)
{
	VIP_VI_ATTRIBUTES attributes = { shape->level, SIZE_MOST, NULL, NULL, VIP_TRUE, VIP_TRUE };

	memset(end, 0, sizeof(*end));
	end->shape = *shape;
	end->nic = open_nic(&end->attributes);
	check("VipCreatePtag", VipCreatePtag(end->nic, &attributes.Ptag));
	open_memory(end, attributes.Ptag);
	if (shape->cq)
		check("VipCreateCQ", VipCreateCQ(end->nic, 4 * WINDOW, &end->cq));
	check("VipCreateVi", VipCreateVi(end->nic, &attributes, end->cq, end->cq, &end->vi));
}

/* --- connections */

VIP_NET_ADDRESS *find_server(struct end *end, const char *host, const char *discriminator)
{
	VIP_NET_ADDRESS *address = make_address(&end->attributes, "");

	check("VipNSInit", VipNSInit(end->nic, NULL));
	check("VipNSGetHostByName", VipNSGetHostByName(end->nic, (char *)host, address, 0));
	check("VipNSShutdown", VipNSShutdown(end->nic));
	set_discriminator(address, discriminator);
	return address;
}

void serve(struct end *end, const char *discriminator)
{
	VIP_NET_ADDRESS *local = make_address(&end->attributes, discriminator);
	VIP_NET_ADDRESS *remote = make_address(&end->attributes, "");
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE conn;

	if (!end->failed && ok(end, "VipConnectWait", VipConnectWait(end->nic, local, VIP_INFINITE,
			remote, &attributes, &conn)))
		ok(end, "VipConnectAccept", VipConnectAccept(conn, end->vi));
	free(local);
	free(remote);
}

void ask(struct end *end, VIP_NET_ADDRESS *server)
{
	unsigned long patience = end->shape.patience;
	VIP_NET_ADDRESS *local;

	if (end->failed)
		return;
	local = make_address(&end->attributes, "vipl_tool");
	ok(end, "VipConnectRequest", request(end->vi, local, server, patience, patience));
	free(local);
}

void leave(struct end *end)
{
	VIP_DESCRIPTOR *descriptor;
	VIP_BOOLEAN receive;
	VIP_VI_HANDLE vi;

	check("VipDisconnect", VipDisconnect(end->vi));
	do
		VipSendDone(end->vi, &descriptor);
	while (descriptor);
	do
		VipRecvDone(end->vi, &descriptor);
	while (descriptor);
	while (end->cq && VipCQDone(end->cq, &vi, &receive) == VIP_SUCCESS)
		;
	memset(end->entries, 0, sizeof(end->entries));
	end->failed = NULL;
}

/* --- descriptors */

/* The next descriptor of a queue, which the queue has given back. */
static VIP_DESCRIPTOR *next(struct end *end, enum queue queue)
{
	VIP_DESCRIPTOR *descriptor = end->descriptors[queue] + end->posted[queue]++ % WINDOW;

	memset(descriptor, 0, sizeof(*descriptor));
	return descriptor;
}

static void fill(struct end *end, VIP_DESCRIPTOR *descriptor, char *data, size_t length)
{
	VIP_DATA_SEGMENT *segment = &descriptor->DS[descriptor->CS.SegCount++].Local;

	segment->Data.Address = data;
	segment->Handle = end->memory;
	segment->Length = length;
	descriptor->CS.Length = length;
}

static void post_into(struct end *end, VIP_DESCRIPTOR *descriptor, char *data, size_t length)
{
	fill(end, descriptor, data, length);
	if (!end->failed)
		ok(end, "VipPostRecv", VipPostRecv(end->vi, descriptor, end->memory));
}

void post_receive(struct end *end)
{
	post_into(end, next(end, RECEIVE), end->in, SIZE_MOST);
}

void post_part(struct end *end)
{
	VIP_DESCRIPTOR *descriptor = next(end, RECEIVE);

	post_into(end, descriptor, end->in + (descriptor - end->descriptors[RECEIVE]) * PART, PART);
}

void post_send(struct end *end, VIP_UINT16 control, const struct place *there, size_t length)
{
	post_send_with(end, control, there, length, 0);
}

void post_send_with(struct end *end, VIP_UINT16 control, const struct place *there, size_t length,
	VIP_UINT32 immediate)
{
	VIP_DESCRIPTOR *descriptor = next(end, SEND);

	descriptor->CS.Control = control;
	descriptor->CS.ImmediateData = immediate;
	if ((control & VIP_CONTROL_OP_MASK) != VIP_CONTROL_OP_SENDRECV) {
		descriptor->DS[0].Remote.Data.AddressBits = there->address;
		descriptor->DS[0].Remote.Handle = there->handle;
		descriptor->CS.SegCount = 1;
	}
	fill(end, descriptor, end->out, length);
	if (!end->failed)
		ok(end, "VipPostSend", VipPostSend(end->vi, descriptor, end->memory));
}

/* --- completions */

static VIP_RETURN done(struct end *end, enum queue queue, VIP_DESCRIPTOR **descriptor)
{
	return queue == SEND ? VipSendDone(end->vi, descriptor) : VipRecvDone(end->vi, descriptor);
}

static VIP_RETURN wait_for(struct end *end, enum queue queue, VIP_DESCRIPTOR **descriptor)
{
	return queue == SEND ? VipSendWait(end->vi, end->shape.patience, descriptor) :
			       VipRecvWait(end->vi, end->shape.patience, descriptor);
}

/* Looks at a queue until a descriptor is done, or the time is over. */
static VIP_RETURN look(struct end *end, enum queue queue, VIP_DESCRIPTOR **descriptor)
{
	double until = 0;
	VIP_RETURN result;
	int n;

	for (;;) {
		for (n = 0; n < LOOKS; n++) {
			result = done(end, queue, descriptor);
			if (result != VIP_NOT_DONE)
				return result;
		}
		if (!until)
			until = now_us() + end->shape.patience * 1e3;
		else if (now_us() >= until)
			return VIP_TIMEOUT;
	}
}

/* Takes an entry of the completion queue and counts it for its queue. */
static VIP_RETURN take_entry(struct end *end)
{
	double until = now_us() + end->shape.patience * 1e3;
	VIP_BOOLEAN receive;
	VIP_VI_HANDLE vi;
	VIP_RETURN result;

	if (end->shape.wait) {
		result = VipCQWait(end->cq, end->shape.patience, &vi, &receive);
	} else {
		do
			result = VipCQDone(end->cq, &vi, &receive);
		while (result == VIP_NOT_DONE && now_us() < until);
	}
	if (result == VIP_SUCCESS)
		end->entries[receive ? RECEIVE : SEND]++;
	return result == VIP_NOT_DONE ? VIP_TIMEOUT : result;
}

/* Takes the descriptor that an entry of the completion queue tells of. */
static VIP_RETURN take_told(struct end *end, enum queue queue, VIP_DESCRIPTOR **descriptor)
{
	VIP_RETURN result;

	while (!end->entries[queue]) {
		result = take_entry(end);
		if (result != VIP_SUCCESS)
			return result;
	}
	end->entries[queue]--;
	return done(end, queue, descriptor);
}

VIP_DESCRIPTOR *take(struct end *end, enum queue queue)
{
	VIP_DESCRIPTOR *descriptor = NULL;
	VIP_RETURN result;

	if (end->failed)
		return NULL;
	if (end->cq)
		result = take_told(end, queue, &descriptor);
	else if (end->shape.wait)
		result = wait_for(end, queue, &descriptor);
	else
		result = look(end, queue, &descriptor);
	return ok(end, queue == SEND ? "a send" : "a receive", result) ? descriptor : NULL;
}

void tell(struct end *end, size_t length)
{
	post_send(end, VIP_CONTROL_OP_SENDRECV, NULL, length);
	take(end, SEND);
}

void see_off(struct end *end)
{
	take(end, RECEIVE);
	end->failed = NULL;
}
