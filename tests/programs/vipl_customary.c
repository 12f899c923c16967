/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A program in C of 1989, as programs for other VI Provider Libraries are written:
 *
 *	vipl_customary server
 *	vipl_customary client HOST
 *
 * The client sends a message that says where its memory is. The server, which waits at a completion
 * queue, writes there, and tells it by immediate data, which wakes a notify handler of the client.
 * The client disconnects; the server's error handler is told. Both print what they have seen.
 */
#define _POSIX_C_SOURCE 199506L

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vipl.h>

#define DISCRIMINATOR "customary"
#define SIZE 4096
#define NUMBER 0x1998
/* So long is waited for anything, in milliseconds. */
#define SOON 20000

#define CHECK(call) check(#call, (call))

/* What the client's message says. */
typedef struct {
	VIP_UINT64 Address;
	VIP_MEM_HANDLE Handle;
} GREETING;

/* Memory that is registered as a whole: descriptors lie on multiples of their alignment. */
typedef struct {
	VIP_DESCRIPTOR *Send, *Recv;
	VIP_UCHAR *Data;
	VIP_MEM_HANDLE Handle;
} BUFFERS;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static VIP_DESCRIPTOR *notified;
static int lost;

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES nic_attributes;
static VIP_VI_HANDLE vi;
static VIP_CQ_HANDLE cq;
static BUFFERS buffers;

static void fail(const char *what, int value)
{
	fprintf(stderr, "FAILED: %s: %d\n", what, value);
	exit(EXIT_FAILURE);
}

static void check(const char *what, VIP_RETURN result)
{
	if (result != VIP_SUCCESS)
		fail(what, (int)result);
}

/* --- handlers, which the library calls in threads of its own */

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	pthread_mutex_lock(&lock);
	if (context == (VIP_PVOID)&nic && error->ErrorCode == VIP_ERROR_CONN_LOST &&
	    error->ViHandle == vi)
		lost = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void on_receive(VIP_PVOID context, VIP_NIC_HANDLE of_nic, VIP_VI_HANDLE of_vi,
	VIP_DESCRIPTOR *descriptor)
{
	pthread_mutex_lock(&lock);
	if (context == (VIP_PVOID)&buffers && of_nic == nic && of_vi == vi)
		notified = descriptor;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* Waits, with the lock, until a handler has told of something. */
static void wait_for_change(const char *what)
{
	struct timespec end;
	int result;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += SOON / 1000;
	result = pthread_cond_timedwait(&changed, &lock, &end);
	if (result)
		fail(what, result);
}

/* --- what both sides do first */

static void register_buffers(VIP_PROTECTION_HANDLE ptag)
{
	VIP_MEM_ATTRIBUTES attributes;
	char *start = calloc(1, SIZE + 3 * VIP_DESCRIPTOR_ALIGNMENT);
	size_t beyond;

	if (!start)
		fail("calloc", 0);
	beyond = (size_t)start % VIP_DESCRIPTOR_ALIGNMENT;
	if (beyond)
		start += VIP_DESCRIPTOR_ALIGNMENT - beyond;
	buffers.Send = (VIP_DESCRIPTOR *)start;
	buffers.Recv = buffers.Send + 1;
	buffers.Data = (VIP_UCHAR *)(buffers.Recv + 1);
	attributes.Ptag = ptag;
	attributes.EnableRdmaWrite = VIP_TRUE;
	attributes.EnableRdmaRead = VIP_FALSE;
	CHECK(VipRegisterMem(nic, start, SIZE + 2 * sizeof(VIP_DESCRIPTOR), &attributes,
		&buffers.Handle));
}

static void set_up(int with_cq)
{
	VIP_VI_ATTRIBUTES attributes;

	CHECK(VipOpenNic("VINIC", &nic));
	CHECK(VipQueryNic(nic, &nic_attributes));
	CHECK(VipErrorCallback(nic, &nic, on_error));
	if (with_cq)
		CHECK(VipCreateCQ(nic, 16, &cq));
	memset(&attributes, 0, sizeof(attributes));
	attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
	attributes.MaxTransferSize = SIZE;
	attributes.EnableRdmaWrite = VIP_TRUE;
	CHECK(VipCreatePtag(nic, &attributes.Ptag));
	register_buffers(attributes.Ptag);
	CHECK(VipCreateVi(nic, &attributes, NULL, cq, &vi));
}

static VIP_NET_ADDRESS *new_address(void)
{
	VIP_NET_ADDRESS *address = calloc(1, sizeof(VIP_NET_ADDRESS) +
		nic_attributes.NicAddressLen + nic_attributes.MaxDiscriminatorLen);

	if (!address)
		fail("calloc", 0);
	address->HostAddressLen = nic_attributes.NicAddressLen;
	memcpy(address->HostAddress, nic_attributes.LocalNicAddress, address->HostAddressLen);
	address->DiscriminatorLen = sizeof(DISCRIMINATOR) - 1;
	memcpy(address->HostAddress + address->HostAddressLen, DISCRIMINATOR,
		address->DiscriminatorLen);
	return address;
}

/* Fills a descriptor in, whose first segments are already there. */
static void describe(VIP_DESCRIPTOR *descriptor, VIP_UINT16 control, VIP_UINT16 before,
	VIP_UINT32 length)
{
	descriptor->CS.Control = control;
	descriptor->CS.SegCount = (VIP_UINT16)(before + 1);
	descriptor->CS.Reserved = 0;
	descriptor->CS.Length = length;
	descriptor->CS.Status = 0;
	descriptor->DS[before].Local.Data.Address = buffers.Data;
	descriptor->DS[before].Local.Handle = buffers.Handle;
	descriptor->DS[before].Local.Length = length;
}

static void post_receive(void)
{
	describe(buffers.Recv, VIP_CONTROL_OP_SENDRECV, 0, SIZE);
	CHECK(VipPostRecv(vi, buffers.Recv, buffers.Handle));
}

static void send_and_wait(VIP_UINT32 operation)
{
	VIP_DESCRIPTOR *done;

	CHECK(VipPostSend(vi, buffers.Send, buffers.Handle));
	CHECK(VipSendWait(vi, SOON, &done));
	if (done != buffers.Send ||
	    (done->CS.Status & (VIP_STATUS_OP_MASK | VIP_STATUS_ERROR_MASK)) != operation)
		fail("the operation's status", (int)done->CS.Status);
}

/* --- the server */

static void accept_client(void)
{
	VIP_NET_ADDRESS *local = new_address(), *remote = new_address();
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE conn;

	CHECK(VipConnectWait(nic, local, SOON, remote, &attributes, &conn));
	CHECK(VipConnectAccept(conn, vi));
	free(local);
	free(remote);
}

static void take_greeting(GREETING *greeting)
{
	VIP_DESCRIPTOR *done;
	VIP_VI_HANDLE of_vi;
	VIP_BOOLEAN receive;

	CHECK(VipCQWait(cq, SOON, &of_vi, &receive));
	if (of_vi != vi || receive != VIP_TRUE)
		fail("the entry", (int)receive);
	CHECK(VipRecvDone(vi, &done));
	if (done->CS.Length != sizeof(*greeting))
		fail("the greeting's length", (int)done->CS.Length);
	memcpy(greeting, buffers.Data, sizeof(*greeting));
}

static void serve(void)
{
	GREETING greeting;
	int n;

	set_up(1);
	post_receive();
	printf("ready\n");
	fflush(stdout);
	accept_client();
	take_greeting(&greeting);
	for (n = 0; n < SIZE; n++)
		buffers.Data[n] = (VIP_UCHAR)(n * 7);
	buffers.Send->DS[0].Remote.Data.AddressBits = greeting.Address;
	buffers.Send->DS[0].Remote.Handle = greeting.Handle;
	describe(buffers.Send, VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE, 1, SIZE);
	buffers.Send->CS.ImmediateData = NUMBER;
	send_and_wait(VIP_STATUS_OP_RDMA_WRITE);
	pthread_mutex_lock(&lock);
	while (!lost)
		wait_for_change("the client has left");
	pthread_mutex_unlock(&lock);
	printf("written; the client has left\n");
}

/* --- the client */

static void connect_to(char *host)
{
	VIP_NET_ADDRESS *local = new_address(), *remote = new_address();
	VIP_VI_ATTRIBUTES attributes;

	CHECK(VipNSInit(nic, NULL));
	CHECK(VipNSGetHostByName(nic, host, remote, 0));
	memcpy(remote->HostAddress + remote->HostAddressLen, DISCRIMINATOR,
		sizeof(DISCRIMINATOR) - 1);
	remote->DiscriminatorLen = sizeof(DISCRIMINATOR) - 1;
	CHECK(VipConnectRequest(vi, local, remote, SOON, &attributes));
	free(local);
	free(remote);
}

static void ask(char *host)
{
	GREETING greeting;
	int n;

	set_up(0);
	post_receive();
	CHECK(VipRecvNotify(vi, &buffers, on_receive));
	connect_to(host);
	memset(&greeting, 0, sizeof(greeting));
	greeting.Address = (VIP_UINT64)(size_t)buffers.Data;
	greeting.Handle = buffers.Handle;
	memcpy(buffers.Data, &greeting, sizeof(greeting));
	describe(buffers.Send, VIP_CONTROL_OP_SENDRECV, 0, sizeof(greeting));
	send_and_wait(VIP_STATUS_OP_SEND);
	pthread_mutex_lock(&lock);
	while (!notified)
		wait_for_change("the notification");
	pthread_mutex_unlock(&lock);
	if (notified != buffers.Recv || !(notified->CS.Status & VIP_STATUS_IMMEDIATE) ||
	    notified->CS.ImmediateData != NUMBER)
		fail("the notification", (int)notified->CS.Status);
	for (n = 0; n < SIZE; n++)
		if (buffers.Data[n] != (VIP_UCHAR)(n * 7))
			fail("a byte", n);
	CHECK(VipDisconnect(vi));
	printf("notified; all bytes are there\n");
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "server"))
		serve();
	else if (argc == 3 && !strcmp(argv[1], "client"))
		ask(argv[2]);
	else
		return 2;
	CHECK(VipCloseNic(nic));
	return EXIT_SUCCESS;
}
